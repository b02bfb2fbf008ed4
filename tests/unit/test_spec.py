"""agents/NAME.toml: what may stand in it, what a turn is begun under, and what is said of a wrong one (B1, B2, B11, C7, D3)."""

from pathlib import Path

import pytest

from daemon.agent.config import AgentConfig
from daemon.agent.spec.agent_spec import AgentSpec, default_spec, parse_spec
from daemon.agent.spec.sections import LoopSection, TextCheckSection
from daemon.core.errors import ConfigError
from daemon.core.turn_spec import (
    AnswerCheck,
    BudgetExhausted,
    Composite,
    Limits,
    Member,
    TextIncludes,
    ToolResult,
    TurnSpec,
)

CODER = """
[identity]
name = "coder"
version = "0.1.0"
description = "writes code"
instructions = "You write TypeScript."

[model_policy]
model = "big-one"
effort = "high"
[model_policy.budget]
usd_per_run = 0.5
tokens_per_run = 200000
seconds_per_run = 90

[iteration]
max_cycles = 30
context_window = 128000
summary_strategy = "periodic-summary"
[[iteration.termination_conditions]]
kind = "tool-result"
tool = "shell"
match = { exit_code = 0, contains = "tsc" }
[[iteration.termination_conditions]]
kind = "text-includes"
text = "<task-complete>"
[[iteration.termination_conditions]]
kind = "budget-exhausted"

[tools]
enabled = ["shell", "*_file"]
approvals = "always"
protected_paths = ["src/secret"]
critical = ["shell"]
"""
BARE = '[identity]\nname = "coder"\n'
DEFAULTS = AgentConfig()


def parsed(text: str) -> AgentSpec:
    return parse_spec(text, Path("agents/coder.toml"))


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return [line.removeprefix("agents/coder.toml: ") for line in str(caught.value).splitlines()]


def test_a_spec_declares_identity_and_iteration_and_a_turn_gets_all_of_it():
    """B1"""
    spec = parsed(CODER)
    assert spec.turn_spec(DEFAULTS) == TurnSpec(
        agent="coder",
        instructions="You write TypeScript.",
        model="big-one",
        effort="high",
        cycles=True,
        conditions=(
            ToolResult("shell", 0, "tsc"),
            TextIncludes("<task-complete>"),
            BudgetExhausted(0.5),
        ),
        window=128_000,
        strategy="periodic-summary",
        tools=("shell", "*_file"),
        approvals="always",
        protected_paths=("src/secret",),
        critical=("shell",),
        on_budget="stop",
    )
    assert (spec.identity.name, spec.identity.version, spec.identity.description) == (
        "coder",
        "0.1.0",
        "writes code",
    )


def test_max_cycles_is_the_ceiling_and_nothing_adds_to_it():
    """B3: the cap of request_more_iterations is the same number."""
    assert parsed(CODER).limits(DEFAULTS) == Limits(30, 30, 90.0, 200_000, 0.5)


def test_what_a_spec_does_not_say_comes_from_agent():
    """B1"""
    defaults = AgentConfig(
        max_iterations=7,
        max_seconds=33,
        context_window=9_000,
        summary_strategy="periodic-summary",
        effort="low",
        on_stall="stop",
        on_budget="stop",
        reflect=True,
        check_claims=False,
        verify=[TextCheckSection(kind="contains", value="Sources:")],
    )
    spec = parsed(BARE)
    assert spec.limits(defaults) == Limits(
        defaults.max_iterations,
        defaults.max_iterations_cap,
        defaults.max_seconds,
        defaults.max_input_tokens,
        defaults.max_usd,
    )
    assert spec.turn_spec(defaults) == TurnSpec(
        agent="coder",
        window=9_000,
        strategy="periodic-summary",
        on_stall="stop",
        on_budget="stop",
        reflect=True,
        check_claims=False,
        checks=(AnswerCheck("contains", "Sources:"),),
    )


def test_what_a_spec_says_goes_before_agent():
    """B1, E10"""
    defaults = AgentConfig(reflect=True, verify=[TextCheckSection(kind="contains", value="x")])
    said = 'reflect = false\ncheck_claims = false\non_stall = "stop"\non_budget = "stop"\nverify = []\n'
    expected = TurnSpec(
        agent="coder", reflect=False, check_claims=False, on_stall="stop", on_budget="stop"
    )
    assert parsed(said + BARE).turn_spec(defaults) == expected


def test_the_default_agent_is_made_of_agent():
    """B1, C7: its loop settings too."""
    defaults = AgentConfig(
        loop=LoopSection(enabled=True, criterion="test_pass", value="pytest -q", max_iterations=3)
    )
    spec = default_spec(defaults)
    assert (spec.identity.name, spec.loop) == ("default", defaults.loop)
    assert spec.turn_spec(defaults) == TurnSpec(on_budget="ask")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[iteration]\nmax_cycles = 0", "iteration.max_cycles: found 0, expected 1 or more"),
        (
            "[iteration]\ncontext_window = 9000",
            "iteration.max_cycles: expected a value; the key is required here",
        ),
        (
            "[iteration]\nmax_cycles = 3\ncontext_window = 5",
            "iteration.context_window: found 5, expected 2000 or more",
        ),
        (
            '[iteration]\nmax_cycles = 3\nsummary_strategy = "roling-window"',
            'did you mean "rolling-window"?',
        ),
        (
            "[iteration]\nmax_cycles = 3\nmax_cycle = 3",
            "iteration.max_cycle: is a key that this version",
        ),
        ("[iterations]\nmax_cycles = 3", "did you mean iteration?"),
        ('[model_policy]\neffort = "hig"', 'model_policy.effort: found "hig"'),
        (
            "[model_policy.budget]\nusd_per_run = -1",
            "model_policy.budget.usd_per_run: found -1, expected more than 0",
        ),
        (
            "[model_policy.budget]\nusd_per_run = inf",
            "model_policy.budget.usd_per_run: found no finite number",
        ),
        ('[tools]\napprovals = "allways"', 'tools.approvals: found "allways", expected'),
        ('[tools]\nenabled = [""]', 'tools.enabled.0: found "", expected text that is not empty'),
        (
            '[[verify]]\nkind = "regex"\nvalue = "("',
            'verify.0.value: found "(", expected a regular expression',
        ),
        ('[[verify]]\nkind = "contain"\nvalue = "x"', 'verify.0.kind: found "contain", expected'),
        (
            '[[verify]]\nkind = "test_pass"',
            "verify.0.value: expected a value; the key is required here",
        ),
        (
            '[[verify]]\nkind = "tool_result"\nvalue = "x"\ntool = "t"',
            "verify.0.value: is a key that this version",
        ),
        (
            "[output]\nschema = 'no json'",
            'output.schema: found "no json", expected a table, or a text that is JSON',
        ),
        ('[output.schema]\ntype = "objct"', "type: 'objct' is not one of ['object'"),
    ],
)
def test_a_wrong_key_is_told_with_its_place_and_what_was_expected_b1(table: str, told: str):
    [line] = faults(BARE + table)
    assert told in line


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (
            'kind = "text-include"\ntext = "x"',
            ".kind: found \"text-include\", expected 'text-includes', 'tool-result'",
        ),
        ('text = "x"', ".kind: expected a value; the key is required here"),
        ('kind = "text-includes"', ".text: expected a value; the key is required here"),
        ('kind = "text-includes"\ntext = ""', '.text: found "", expected text that is not empty'),
        (
            'kind = "tool-result"\ntool = "shell"\nmatch = {}',
            ".match: found a table, expected exit_code, contains, or both",
        ),
        (
            'kind = "tool-result"\ntool = "shell"',
            ".match: expected a value; the key is required here",
        ),
        (
            'kind = "tool-result"\ntool = "shell"\nmatch = { exitcode = 0, contains = "x" }',
            ".match.exitcode: is a key",
        ),
        ('kind = "text-includes"\ntext = "x"\ntool = "shell"', ".tool: is a key"),
    ],
)
def test_a_wrong_condition_is_told_by_its_number_b2(condition: str, told: str):
    [line] = faults(
        f"{BARE}[iteration]\nmax_cycles = 3\n[[iteration.termination_conditions]]\n{condition}"
    )
    assert line.startswith("iteration.termination_conditions.0") and told in line


def test_budget_exhausted_without_a_budget_is_refused():
    """B2"""
    text = (
        BARE
        + '[iteration]\nmax_cycles = 3\n[[iteration.termination_conditions]]\nkind = "budget-exhausted"\n'
    )
    [line] = faults(text)
    assert (
        line
        == 'model_policy.budget.usd_per_run: is needed: a termination condition has kind = "budget-exhausted"'
    )
    assert parsed(text + "[model_policy.budget]\nusd_per_run = 1\n").turn_spec(
        DEFAULTS
    ).conditions == (BudgetExhausted(1.0),)


def test_a_spec_with_both_iteration_and_composite_is_refused_at_parse():
    """B11"""
    both = '[iteration]\nmax_cycles = 3\n[composite]\nstrategy = "parallel"\nagents = [{ agent = "critic" }]\n'
    [line] = faults(BARE + both)
    assert line.startswith("iteration: iteration and [composite] exclude each other")


def test_all_faults_of_a_spec_are_told_together():
    """B1"""
    wrong = '[identity]\nname = "other"\nnam = 1\n[iteration]\nmax_cycles = 0\n[composite]\nstrategy = "paralel"\nagents = []\n'
    assert [line.split(": ")[0] for line in faults(wrong)] == [
        "identity.nam",
        "iteration.max_cycles",
        "composite.strategy",
        "composite.agents",
        "identity.name",
        "iteration",
    ]


def test_the_name_must_be_the_file_s():
    """B1"""
    assert faults('[identity]\nname = "codr"\n') == [
        'identity.name: found "codr", expected "coder", as the file is called'
    ]
    assert faults("[identity]\n") == ["identity.name: expected a value; the key is required here"]


def test_broken_toml_is_told_by_line_and_column():
    assert faults('[identity\nname = "x"')[0].startswith("line 1, column 10: is not TOML: ")


@pytest.mark.parametrize(
    ("table", "composite"),
    [
        ('strategy = "sequential"', Composite("sequential", (Member("a", "first"), Member("b")))),
        ('strategy = "parallel"', Composite("parallel", (Member("a", "first"), Member("b")))),
        (
            'strategy = "debate"\njudge = "c"',
            Composite("debate", (Member("a", "first"), Member("b")), 2, "c"),
        ),
        (
            'strategy = "debate"\nrounds = 4',
            Composite("debate", (Member("a", "first"), Member("b")), 4),
        ),
        (
            'strategy = "iterative"\nuntil = "GOOD"',
            Composite("iterative", (Member("a", "first"), Member("b")), 5, "", "GOOD"),
        ),
    ],
)
def test_a_composite_has_a_strategy_and_agents_b11(table: str, composite: Composite):
    agents = 'agents = [{ agent = "a", brief = "first" }, { agent = "b" }]'
    assert (
        parsed(f"{BARE}[composite]\n{table}\n{agents}\n").turn_spec(DEFAULTS).composite == composite
    )


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            'strategy = "debate"\nagents = [{ agent = "a" }]',
            "composite.agents: found a list, agents must be two or more",
        ),
        (
            'strategy = "parallel"\njudge = "c"\nagents = [{ agent = "a" }]',
            "composite.judge: found",
        ),
        (
            'strategy = "sequential"\nuntil = "x"\nagents = [{ agent = "a" }]',
            "composite.until: found",
        ),
        (
            'strategy = "parallel"\nrounds = 2\nagents = [{ agent = "a" }]',
            "composite.rounds: found 2, rounds belongs to",
        ),
        (
            'strategy = "parallel"\nagents = [{ agent = "../a" }]',
            'composite.agents.0.agent: found "../a", expected letters',
        ),
    ],
)
def test_what_a_strategy_does_not_use_is_refused_b11(table: str, told: str):
    [line] = faults(f"{BARE}[composite]\n{table}\n")
    assert line.startswith(told.split(": found")[0])


@pytest.mark.parametrize(
    ("table", "loop"),
    [
        ("", LoopSection(enabled=False, criterion="max_iterations", value="", max_iterations=10)),
        (
            'enabled = true\ncriterion = "test_pass"\nvalue = "x"',
            LoopSection(enabled=True, criterion="test_pass", value="x"),
        ),
        (
            'criterion = "manual"\nmax_iterations = 100',
            LoopSection(criterion="manual", max_iterations=100),
        ),
    ],
)
def test_loop_settings_stand_on_the_agent_c7(table: str, loop: LoopSection):
    assert parsed(f"{BARE}[loop]\n{table}\n").loop == loop


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("max_iterations = 0", "loop.max_iterations: found 0, expected 1 or more"),
        ("max_iterations = 101", "loop.max_iterations: found 101, expected 100 or less"),
        ('criterion = "regex"', 'loop.value: value is needed with criterion = "regex"'),
        (
            'criterion = "test_pass"\nvalue = " "',
            'loop.value: found " ", value is needed with criterion = "test_pass"',
        ),
        ('criterion = "tests"', 'loop.criterion: found "tests", expected'),
    ],
)
def test_wrong_loop_settings_are_refused_c7(table: str, told: str):
    [line] = faults(f"{BARE}[loop]\n{table}\n")
    assert line.startswith(told)


def test_an_invalid_regex_of_a_loop_is_accepted_and_warned_about():
    """C3"""
    spec = parsed(f'{BARE}[loop]\ncriterion = "regex"\nvalue = "("\n')
    [warning] = spec.loop.warnings()
    assert "'(' is no regular expression" in warning and "goes on to its last attempt" in warning
    assert parsed(f'{BARE}[loop]\ncriterion = "regex"\nvalue = "a+"\n').loop.warnings() == []


@pytest.mark.parametrize(
    ("table", "check"),
    [
        ('kind = "regex"\nvalue = "^ok"', AnswerCheck("regex", "^ok")),
        ('kind = "contains"\nvalue = "ok"', AnswerCheck("contains", "ok")),
        ('kind = "test_pass"\nvalue = "pytest -q"', AnswerCheck("test_pass", "pytest -q")),
        ('kind = "judge"\nvalue = "is it polite?"', AnswerCheck("judge", "is it polite?")),
        ('kind = "manual"', AnswerCheck("manual")),
        (
            'kind = "tool_result"\ntool = "shell"\nexit_code = 0',
            AnswerCheck("tool_result", "", "shell", 0),
        ),
        (
            'kind = "tool_result"\ntool = "shell"\ncontains = "ok"',
            AnswerCheck("tool_result", "ok", "shell"),
        ),
    ],
)
def test_each_kind_of_verifier_can_be_declared_e10(table: str, check: AnswerCheck):
    assert parsed(f"{BARE}[[verify]]\n{table}\n").turn_spec(DEFAULTS).checks == (check,)


@pytest.mark.parametrize(
    "output",
    [
        '[output.schema]\ntype = "object"\nrequired = ["a"]',
        """[output]\nschema = '{"type": "object", "required": ["a"]}'""",
    ],
)
def test_the_output_s_schema_is_a_table_or_json_text_d3(output: str):
    assert (
        parsed(BARE + output).turn_spec(DEFAULTS).output_schema
        == '{"type": "object", "required": ["a"]}'
    )
