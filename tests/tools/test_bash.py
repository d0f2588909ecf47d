"""The `bash` tool, with real commands."""

import pytest

from tinyagent.core.types import ToolCall
from tinyagent.tools.bash import bash_tool


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo hi", r"hi\n[exit code 0, "),
        ("printf hi; exit 7", r"hi\n[exit code 7, "),
        ("true", "[exit code 0, "),
        ("echo err >&2", r"err\n[exit code 0, "),
        ("kill -9 $$", "[exit code 137 (SIGKILL), "),
    ],
)
def test_a_result_is_the_output_and_the_exit_code(room, command, text):
    """R16: `kill -9 $$`, `exit 7`: the result names signal or code."""
    message = room.call("bash", command=command)
    assert message.text.startswith(text.replace(r"\n", "\n"))
    assert not message.is_error


def test_facts_hold_command_exit_code_and_size(room):
    message = room.call("bash", command="echo hi; exit 3")
    assert message.facts == {"command": "echo hi; exit 3", "exit_code": 3, "output_chars": len(message.text)}


def test_an_output_that_is_shown_whole_leaves_no_file(room):
    message = room.call("bash", command="seq 100")
    assert message.output_id == ""
    assert list(room.outputs.iterdir()) == []


def test_a_timeout_says_so_and_how_to_go_on(room):
    """R20 claude-code 2.1.212: a timeout is told apart from an exit code."""
    message = room.call("bash", command="echo start; sleep 60", timeout_s=1)
    assert message.text.startswith("start\n[stopped after 1 s, its time limit; give a larger timeout_s")
    assert "background" in message.text
    assert message.facts.get("exit_code", 0) is None


def test_what_is_left_of_the_run_bounds_a_command(room):
    call = ToolCall("c", "bash", {"command": "sleep 60"})
    (message,) = room.dispatch.run([call], step_chars=10_000, remaining_s=0.5)
    assert "the run's time limit is reached" in message.text


def test_a_large_output_is_cut_and_can_be_read_again(room):
    message = room.call("bash", command="seq 1 100000; echo the end")
    assert message.text.startswith("1\n2\n3\n")
    assert "the end\n[exit code 0, " in message.text
    assert f'read_output("{message.output_id}") has all' in message.text
    assert len(message.text) <= 10_000
    stored = room.store.read(message.output_id)
    assert stored.startswith("".join(f"{n}\n" for n in range(1, 100_001)) + "the end\n")
    assert message.facts.get("output_chars") == len(stored)


def test_twenty_megabytes_keep_head_tail_and_the_true_count(room):
    """R10 zero#469, claude-code#11155: `yes`."""
    message = room.call("bash", command="echo first; yes | head -c 20000000; echo; echo last")
    assert message.text.startswith("first\ny\n")
    assert "last\n[exit code 0, " in message.text
    assert "[20,000,012 bytes of output]" in message.text
    assert len(message.text) <= 10_000


def test_a_spooled_output_holds_no_secret(room):
    """S41: a key in an output is in no sink."""
    message = room.call("bash", command="echo hunter2; seq 1 100000; echo hunter2")
    assert "hunter2" not in message.text + room.store.read(message.output_id) + str(message.facts)
    assert "[secret]" in room.store.read(message.output_id)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (r"printf 'a\0b\377c'; exit 4", "a\ufffdb\ufffdc\n[exit code 4, "),
        ("head -c 4096 /dev/urandom; exit 4", ""),
        (r"printf '\377\376a\0'; exit 4", "\ufffd\ufffda\ufffd\n[exit code 4, "),
    ],
)
def test_bytes_that_are_no_text_keep_the_exit_code_and_are_valid_json_text(room, command, text):
    """R13: random bytes, NUL, latin-1, UTF-16."""
    message = room.call("bash", command=command)
    message.text.encode()
    assert "\0" not in message.text
    assert message.text.startswith(text)
    assert message.facts.get("exit_code") == 4


def test_multibyte_output_is_cut_between_characters(room):
    """R14: 70 KB of CJK and emoji."""
    message = room.call("bash", command="for i in $(seq 7000); do printf '漢字😀'; done")
    assert "\ufffd" not in message.text
    assert 9_000 < len(message.text) <= 10_000


@pytest.mark.parametrize("command", ["echo \0", "echo \ud83d", "echo " + "x" * 200_000])
def test_a_command_that_cannot_be_passed_on_is_an_error_result(room, command):
    """R56: a huge string; the sandbox is not taken for lost."""
    assert room.call("bash", command=command).is_error
    assert room.crashes == []
    assert room.call("bash", command="echo hi").text.startswith("hi")


def test_time_limits_are_settings(room):
    tool = bash_tool(default_timeout_s=1, max_timeout_s=2)
    output = tool.run({"command": "sleep 60"}, room.context())
    assert "stopped after 1 s" in output.text
    assert tool.parameters["properties"]["timeout_s"]["maximum"] == 2


def test_an_interrupted_command_leaves_no_spool(room):
    """A spool that nobody publishes holds secrets in the clear."""

    class Interrupting:
        root = room.root

        def run(self, command, *, timeout_s, max_bytes, spool):
            spool.write_text("hunter2")
            raise KeyboardInterrupt

    context = room.context()
    interrupted = type(context)(Interrupting(), room.store, {}, 10_000)
    with pytest.raises(KeyboardInterrupt):
        bash_tool().run({"command": "x"}, interrupted)
    assert list(room.outputs.iterdir()) == []
