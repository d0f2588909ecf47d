"""The one account of a batch: the worst case is reserved before a task starts, and settled when it ends.

A reservation is one row per try of a job. What is open and what is settled never add up to more than the total, since
both are read and the new row is written in one transaction. Money is kept in whole nanodollars, so that no sum drifts.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Self

from tinyagent.core.errors import RecordError

NANO = 1_000_000_000
_COLUMNS = "job, try, before, reserved"
_NO_LIMIT = -1  # in the column `reserved`
_BUSY_S = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS reservations (
  job TEXT NOT NULL, try INTEGER NOT NULL, before INTEGER NOT NULL, reserved INTEGER NOT NULL, settled INTEGER,
  PRIMARY KEY (job, try)
);
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money that one try of a job may spend; `usd` None: without a limit.

    `before_usd` is what earlier tries of the same run had spent already, which the run itself counts too.
    """

    job: str
    number: int
    usd: float | None
    before_usd: float = 0.0

    @property
    def limit_usd(self) -> float | None:
        """The cost limit of the whole run."""
        return None if self.usd is None else self.before_usd + self.usd


@dataclass(frozen=True, slots=True)
class Balance:
    """Dollars settled, and reserved by tries that are still open."""

    settled_usd: float
    open_usd: float
    open_count: int


class Ledger:
    """The ledger's file. Several processes may use it, each from one thread; not on a network disk, whose locks lie.

    `total_usd` None: no limit, everything is granted and still booked.
    """

    def __init__(self, path: Path, *, total_usd: float | None) -> None:
        self._total = None if total_usd is None else _nano(total_usd, ROUND_FLOOR)
        try:
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise RecordError(f"{path} cannot be used as the ledger: {error}") from error
        self._path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def reserve(
        self, job: str, number: int, *, wanted_usd: float | None, least_usd: float, before_usd: float = 0.0
    ) -> Reservation | None:
        """Set `wanted_usd` aside, or None if the total does not leave it.

        Less is granted only where nothing is open whose end could release more, and no less than `least_usd`. A wish of
        None (no limit) gets all that is left of a total. The same try again raises RecordError.
        """
        with self._transaction() as db:
            grant = self._grant(db, wanted_usd, least_usd)
            if grant is None:
                return None
            before = _nano(before_usd, ROUND_HALF_EVEN)
            db.execute(f"INSERT INTO reservations ({_COLUMNS}) VALUES (?, ?, ?, ?)", (job, number, before, grant))
        return _reservation((job, number, before, grant))

    def settle(self, job: str, number: int, usd: float) -> None:
        """Close a reservation at what was spent and release the rest. Again: nothing happens."""
        with self._transaction() as db:
            db.execute(
                "UPDATE reservations SET settled = ? WHERE job = ? AND try = ? AND settled IS NULL",
                (_nano(usd, ROUND_HALF_EVEN), job, number),
            )

    def open(self) -> list[Reservation]:
        """The reservations that were never settled: their drivers died."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM reservations WHERE settled IS NULL").fetchall()
        return [_reservation(row) for row in rows]

    def tries(self, job: str) -> int:
        """How many tries a job has had."""
        with self._transaction() as db:
            return db.execute("SELECT coalesce(max(try), 0) FROM reservations WHERE job = ?", (job,)).fetchone()[0]

    def balance(self) -> Balance:
        with self._transaction() as db:
            settled, open_, count = _sums(db)
        return Balance(settled / NANO, open_ / NANO, count)

    def _grant(self, db: sqlite3.Connection, wanted_usd: float | None, least_usd: float) -> int | None:
        settled, open_, count = _sums(db)
        wanted = None if wanted_usd is None else _nano(wanted_usd, ROUND_FLOOR)
        if self._total is None:
            return _NO_LIMIT if wanted is None else wanted
        left = max(0, self._total - settled - open_)
        if wanted is not None and wanted <= left:
            return wanted
        if count or not left or left < _nano(least_usd, ROUND_FLOOR):
            return None
        return left

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise RecordError(f"the ledger {self._path} cannot be used: {error}") from error


def _sums(db: sqlite3.Connection) -> tuple[int, int, int]:
    return db.execute(
        "SELECT coalesce(sum(settled), 0),"
        " coalesce(sum(CASE WHEN settled IS NULL THEN max(reserved, 0) END), 0),"
        " count(*) - count(settled) FROM reservations"
    ).fetchone()


def _reservation(row: tuple[str, int, int, int]) -> Reservation:
    job, number, before, reserved = row
    return Reservation(job, number, None if reserved == _NO_LIMIT else reserved / NANO, before / NANO)


def _nano(usd: float, rounding: str) -> int:
    """Whole nanodollars, from the decimal text of the float: 0.1 is a tenth."""
    return int((Decimal(repr(usd)) * NANO).to_integral_value(rounding))
