"""How long things may take, and how often one looks. In seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """`ping_s`: between signs of life on the connection; four that go unanswered end it. `hello_s`: until Slack has greeted.
    `check_s`: without a message, then Slack is asked who we are. `quiet_s`: without a message, then the history is looked at,
    for a connection may live and bring nothing. `hold_s`: how long what comes waits for what was missed meanwhile.
    `margin_s`: how far before the cursor one begins to look. `answer_s`: how long a slash command may wait for its answer.
    """

    ping_s: float = 5.0
    hello_s: float = 10.0
    check_s: float = 60.0
    quiet_s: float = 300.0
    settle_s: float = 10.0
    hold_s: float = 10.0
    margin_s: float = 60.0
    keep_s: float = 3.0
    answer_s: float = 2.0
    timeout_s: float = 20.0
    transfer_s: float = 120.0
    close_s: float = 2.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
