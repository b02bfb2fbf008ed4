"""[events] and [http] users: what is wrong is told with its key, and no token is ever shown."""

from pathlib import Path

import pytest

from daemon.app.config import parse_config
from daemon.core.errors import ConfigError
from daemon.core.trust import OWNER, Person, Role
from daemon.http.auth import Authenticator

FILE = Path("config.toml")
TOKEN = "very-private-token"
ANN = f'[[http.users]]\nname = "ann"\nrole = "viewer"\ntoken = "{TOKEN}"\n'


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse_config(text, FILE, env={}, secrets={})
    assert TOKEN not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[events]\nnotify = "somewhere"', "events.notify"),
        ('[events]\nnotify = "event:github"', "events.notify"),
        ('[events]\nnotify = "email:boss"', "events.notify"),
        ('[events]\nnotify = "web:"', "events.notify"),
        (f'[events.tokens]\n"a/b" = "{TOKEN}"', "events.tokens"),
        ('[events.tokens]\na = ""', "events.tokens"),
        (f'[events.tokens]\na = "é{TOKEN}"', "events.tokens"),
        (f'[events.tokens]\na = "{TOKEN}"\nb = "{TOKEN}"', "events.tokens"),
        (f'[events.tokens]\na = "{TOKEN}"\n[events.prompts]\nb = "x"', "events.prompts"),
        (f'[events]\ntoken = "{TOKEN}"', "events.token"),
        (ANN.replace("ann", "owner"), "http.users.0.name"),
        (ANN.replace("ann", "default"), "http.users.0.name"),
        (ANN.replace("ann", "a:b"), "http.users.0.name"),
        (ANN.replace("viewer", "emperor"), "http.users.0.role"),
        (ANN.replace(TOKEN, ""), "http.users.0.token"),
        (ANN.replace(TOKEN, "é"), "http.users.0.token"),
        (ANN + ANN.replace(TOKEN, "other"), "http.users"),
        (ANN + ANN.replace("ann", "bob"), "http.users"),
        (f'[http]\ntoken = "{TOKEN}"\n{ANN}', "http.users"),
    ],
)
def test_a_fault_names_its_key_and_shows_no_token(text: str, key: str):
    assert refusal(text).startswith(f"config.toml: {key}: ")


@pytest.mark.parametrize(
    "notify", ["", "http", "terminal:main", "web:default", "42", "-100:7", "work/slack:C1:171.2"]
)
def test_results_may_go_to_any_conversation_of_the_owners(notify: str):
    assert (
        parse_config(
            f'[events]\nnotify = "{notify}"', FILE, env={}, secrets={}
        ).config.events.notify
        == notify
    )


def test_tokens_are_not_in_what_a_config_prints():
    config = parse_config(
        f'[events.tokens]\ngithub = "{TOKEN}"\n{ANN.replace(TOKEN, TOKEN + "2")}',
        FILE,
        env={},
        secrets={},
    )
    assert TOKEN not in repr(config.config)
    assert [user.person for user in config.config.http.users] == [Person("ann", Role.VIEWER)]


@pytest.mark.parametrize("shared", ["owners", "anns"])
def test_an_event_may_not_have_the_token_of_a_person(shared: str):
    with pytest.raises(ConfigError, match=r"^events\.tokens\.github: is a person's HTTP token"):
        Authenticator(
            "owners", lambda: 0.0, {"anns": Person("ann", Role.VIEWER)}, {"github": shared}
        )
    assert OWNER.role is Role.OWNER


def test_A13_a_telegram_chat_may_be_named_with_its_platform():
    assert (
        parse_config(
            '[events]\nnotify = "telegram:42"', FILE, env={}, secrets={}
        ).config.events.notify
        == "42"
    )
