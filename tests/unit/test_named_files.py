"""Which workspace files run when a command does, also where the command would rather not say."""

from pathlib import Path

import pytest

from daemon.tools.shell.named_files import MAX_DISCOVERED, MAX_FILES, find_named_files

FILES = {
    "deploy.sh": "#!/bin/sh\necho hi\n",
    "my script.sh": "echo spaced\n",
    "plain": "echo no ending, no bit\n",
    "notes.txt": "words\n",
    "data.csv": "1,2\n",
    "tool.py": "import helper\nfrom pkg.inner import x\nimport json\n",
    "helper.py": "x = 1\n",
    "pkg/__init__.py": "",
    "pkg/inner.py": "x = 1\n",
    "pkg/__main__.py": "",
    "Makefile": "include rules.mk\ntest:\n\tsh ci/run.sh\n\t$(MAKE) -C sub\n",
    "rules.mk": "X=1\n",
    "ci/run.sh": ". ci/lib.sh\n",
    "ci/lib.sh": "echo lib\n",
    "sub/Makefile": "all:\n\techo sub\n",
    "sub/go.sh": "echo go\n",
    "package.json": '{"scripts": {"test": "node run.js", "build": "sh build.sh"}}',
    "run.js": "const x = require('./lib/thing')\n",
    "lib/thing.js": "1\n",
    "build.sh": "echo\n",
    "conftest.py": "",
    "tests/conftest.py": "",
    "tests/test_a.py": "",
    "prog.awk": "{print}\n",
    "README.md": "see deploy.sh\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("workspace")
    for name, text in FILES.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (root / "link.sh").symlink_to("deploy.sh")
    (root / "tool-of-the-system").symlink_to("/bin/sh")
    return root


DEPLOYS = [
    "sh deploy.sh",
    "./deploy.sh",
    "bash -e deploy.sh",
    "bash -eu -o pipefail deploy.sh --force",
    "/bin/sh ./deploy.sh",
    "sh ~/deploy.sh",
    'sh "$HOME/deploy.sh"',
    "sh ${PWD}/deploy.sh",
    "sh /proc/self/cwd/deploy.sh",
    "sh sub/../deploy.sh",
    "sh .//./deploy.sh",
    'sh dep"loy".sh',
    "sh dep\\loy.sh",
    "sh 'deploy.sh'",
    "sh dep*.sh",
    "sh d?ploy.sh",
    "sh [d]eploy.sh",
    "sh {deploy,other}.sh",
    "sh $'\\x64eploy.sh'",
    "F=deploy.sh; sh $F",
    "F=deploy; sh $F.sh deploy.sh",
    "sh < deploy.sh",
    "sh<deploy.sh",
    "cat deploy.sh | sh",
    "cat deploy.sh|bash -s -- x",
    "bash -c 'sh deploy.sh'",
    "bash -c \"bash -c 'sh deploy.sh'\"",
    'sh -c "$(cat deploy.sh)"',
    'eval "$(cat deploy.sh)"',
    "eval `cat deploy.sh`",
    ". ./deploy.sh",
    "source deploy.sh",
    "true && sh deploy.sh",
    "true; (sh deploy.sh)",
    "{ sh deploy.sh; }",
    "if true; then sh deploy.sh; fi",
    "for f in deploy.sh; do sh $f; done",
    "while sh deploy.sh; do :; done",
    "true\nsh deploy.sh",
    "sh deploy.sh > out.log 2>&1",
    "env A=1 sh deploy.sh",
    "nohup timeout 5 nice sh deploy.sh",
    "sudo ./deploy.sh",
    "echo deploy.sh | xargs sh",
    "find . -name deploy.sh -exec sh {} ;",
    "find . -exec ./deploy.sh {} \\;",
    "BASH_ENV=deploy.sh bash -c true",
    "ENV=./deploy.sh ls",
    "LD_PRELOAD=./deploy.sh cat notes.txt",
    "bash --rcfile deploy.sh -i",
    "bash --init-file=deploy.sh -i",
    "git -c core.pager=./deploy.sh log",
    "git -c core.sshCommand='sh deploy.sh' fetch",
    "git bisect run ./deploy.sh",
    "tar --to-command=./deploy.sh -xf x.tar",
    "tar -I ./deploy.sh -xf x.tar",
    "bash <<EOF\n./deploy.sh\nEOF",
    "bash <<< './deploy.sh'",
    "diff <(sh deploy.sh) notes.txt",
    "echo $(sh deploy.sh)",
    "echo `sh deploy.sh`",
    'echo "$(sh deploy.sh)"',
    "sh 'deploy.sh",  # a quote that is not closed
    "awk 'BEGIN { system(\"./deploy.sh\") }'",
    "python3.11 -c 'import os; os.system(\"./deploy.sh\")'",
    "python -c \"exec(open('deploy.sh').read())\"",
    "perl -e 'do \"./deploy.sh\"'",
    "node -e \"require('child_process').execSync('./deploy.sh')\"",
    "busybox sh deploy.sh",
    "exec ./deploy.sh",
    "make -f deploy.sh",
    "link.sh; sh link.sh deploy.sh",
    "cd . && ./deploy.sh",
    "PATH=.:$PATH deploy.sh",
    "# a remark\nsh deploy.sh",
    "true #\\\nsh deploy.sh",
    "sh \\\ndeploy.sh",
    "$SHELL deploy.sh",
    "${X:-sh} deploy.sh",
    "cat deploy.sh | bash /dev/stdin",
    "cat deploy.sh | python -",
]


@pytest.mark.parametrize("line", DEPLOYS)
def test_a_line_that_runs_a_script_names_it(root: Path, line: str) -> None:
    assert "deploy.sh" in find_named_files(root, line), line


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["sh", "my script.sh"], "my script.sh"),
        (["sh", "plain"], "plain"),
        (["env", "-S", "sh plain"], "plain"),
        (["sh", "-c", ". ./plain"], "plain"),
        ([".", "plain"], "plain"),
        (["python", "tool.py"], "helper.py"),
        (["python", "tool.py"], "pkg/inner.py"),
        (["python", "-m", "pkg"], "pkg/__main__.py"),
        (["python", "-c", "import helper"], "helper.py"),
        (["make", "test"], "Makefile"),
        (["make", "test"], "rules.mk"),
        (["make", "test"], "ci/run.sh"),
        (["make", "test"], "ci/lib.sh"),
        (["make", "test"], "sub/Makefile"),
        (["make", "-C", "sub"], "sub/Makefile"),
        (["make", "-Csub"], "sub/Makefile"),
        (["make", "--directory=sub"], "sub/Makefile"),
        (["npm", "test"], "package.json"),
        (["npm", "test"], "run.js"),
        (["npm", "run", "test"], "lib/thing.js"),
        (["npm", "--prefix", ".", "run", "build"], "build.sh"),
        (["pytest"], "conftest.py"),
        (["pytest"], "tests/conftest.py"),
        (["python", "-m", "pytest"], "conftest.py"),
        (["pytest", "tests/test_a.py"], "tests/test_a.py"),
        (["node", "run.js"], "lib/thing.js"),
        (["awk", "-f", "prog.awk", "data.csv"], "prog.awk"),
        (["awk", "-f", "plain", "data.csv"], "plain"),
        (["awk", "-fplain", "data.csv"], "plain"),
        (["sh", "link.sh"], "link.sh"),
        (["./tool-of-the-system", "plain"], "tool-of-the-system"),
    ],
)
def test_what_a_script_or_build_file_names_is_found_with_it(
    root: Path, words: list[str], wanted: str
) -> None:
    assert wanted in find_named_files(root, words)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("cd sub && sh go.sh", "sub/go.sh"),
        ("cd sub; ./go.sh", "sub/go.sh"),
        ("(cd sub; make)", "sub/Makefile"),
        ("pushd sub && sh ./go.sh", "sub/go.sh"),
        ("env -C sub sh go.sh", "sub/go.sh"),
        ("cat notes.txt | sh", "notes.txt"),
        ("sh -c 'cat notes.txt | sh'", "notes.txt"),
    ],
)
def test_a_folder_that_a_line_names_may_be_where_it_runs(
    root: Path, line: str, wanted: str
) -> None:
    assert wanted in find_named_files(root, line)


@pytest.mark.parametrize(
    "line",
    [
        "ls -l",
        "cat deploy.sh notes.txt",
        "wc -l notes.txt > data.csv",
        "cp deploy.sh other.sh",
        "grep -n echo deploy.sh",
        "git add deploy.sh",
        "git commit -m 'words'",
        "sed -i s/a/b/ notes.txt",
        "awk '{print $1}' data.csv",
        "ruff check tool.py",
        "gcc main.c -o main",
        "echo hello > notes.txt",
        "tar czf all.tgz sub",
        "sh -c 'date' > notes.txt",
    ],
)
def test_what_only_looks_at_files_or_moves_them_binds_none(root: Path, line: str) -> None:
    assert find_named_files(root, line) == {}


def test_data_behind_a_script_may_change(root: Path) -> None:
    found = find_named_files(root, "python tool.py data.csv notes.txt")
    assert "tool.py" in found and not {"data.csv", "notes.txt"} & set(found)


def test_a_link_counts_with_what_it_leads_to_and_never_reads_outside(
    root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "private"
    outside.write_text("private words")
    (root / "out.sh").symlink_to(outside)
    found = find_named_files(root, "sh out.sh; sh link.sh")
    assert found["out.sh"].text == ""
    assert found["link.sh"].digest == find_named_files(root, "sh deploy.sh")["deploy.sh"].digest
    (root / "out.sh").unlink()


def test_a_module_that_stands_before_one_of_the_language_is_found(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import random\n")
    before = set(find_named_files(tmp_path, "python tool.py"))
    (tmp_path / "hashlib.py").write_text("evil = 1\n")
    assert set(find_named_files(tmp_path, "python tool.py")) - before == {"hashlib.py"}


def test_a_file_that_is_named_and_comes_later_is_found_then(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("-include local.mk\nall:\n\techo\n")
    before = set(find_named_files(tmp_path, "make"))
    (tmp_path / "local.mk").write_text("all: evil\n")
    assert set(find_named_files(tmp_path, "make")) - before == {"local.mk"}


def test_a_hundred_files_and_a_circle_are_bounded(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"s{number}.sh").write_text(
            f"sh s{(number + 1) % 100}.sh s{number * 7 % 100}.sh"
        )
    (tmp_path / "all.sh").write_text("".join(f"sh s{n}.sh\n" for n in range(100)))
    found = find_named_files(tmp_path, "sh all.sh")
    assert next(iter(found)) == "all.sh" and len(found) <= MAX_FILES + MAX_DISCOVERED
    assert len(find_named_files(tmp_path, "sh s1.sh")) == 101  # so deep that any of them may run


def test_a_pipe_in_the_place_of_a_script_holds_nobody_up(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.sh")
    assert find_named_files(tmp_path, "sh x.sh") == {}


def test_any_bytes_at_all_are_read_without_a_fault(root: Path) -> None:
    import random

    source = random.Random(7)
    signs = "sh deploy.sh ./*?[]{},$`'\"\\\n;|&<>()=~#-\0\u00e9\U0001f600"
    for _ in range(300):
        find_named_files(root, "".join(source.choices(signs, k=source.randint(1, 60))))
        find_named_files(root, source.choices([*signs, "sh", "deploy.sh", "*"], k=8))


@pytest.mark.parametrize(
    ("script", "line", "later"),
    [
        ('. "$(dirname "$0")/$1.sh"', "sh run.sh prod", "prod.sh"),
        ("import runpy, sys\nrunpy.run_path(sys.argv[1] + '.py')", "python run.py prod", "prod.py"),
        ("import importlib\n", "python run.py", "deep/er/prod.py"),
        ("require(process.argv[2])", "node run.js ./prod", "prod.js"),
        ("all:\n\tpython -m pytest\n", "make", "tests/test_x.py"),
        ('{"scripts": {"test": "jest"}}', "npm test", "src/a.test.js"),
        ("", "python3 -m unittest -q", "test_a.py"),
        ("", "pytest -q", "tests/test_b.py"),
        ("", "cargo test", "src/lib.rs"),
        ("", "go test ./...", "pkg/a_test.go"),
        ("", "sh $(ls | head -1)", "z.sh"),
    ],
)
def test_a_runner_that_finds_what_it_runs_is_bound_to_what_it_would_find(
    tmp_path: Path, script: str, line: str, later: str
) -> None:
    name = {"make": "Makefile", "npm": "package.json"}.get(line.split()[0], [*line.split(), ""][1])
    (tmp_path / name).write_text(script)
    before = set(find_named_files(tmp_path, line))
    (tmp_path / later).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / later).write_text("1\n")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / later.rpartition("/")[2]).write_text("1\n")
    found = find_named_files(tmp_path, line)
    assert set(found) - before == {later} and found[later].by_itself


@pytest.mark.parametrize(
    ("line", "later"),
    [
        ("python pkg", "pkg/__main__.py"),
        ("node .", "index.js"),
        ("run-parts jobs", "jobs/one.sh"),
        ("find jobs -name '*.sh' -exec sh {} ;", "jobs/deep/one.sh"),
        ("find jobs | xargs sh", "jobs/deep/one.sh"),
        ("PYTHONPATH=lib python run.py", "lib/helper.py"),
        ("python run.py", "chardet.py"),
        ("perl run.pl", "Foo.pm"),
        ("ruby run.rb", "lib/x.rb"),
        ("make -Cjobs", "jobs/Makefile"),
        ("python chain.py", "e5.py"),
        ("gcc main.c -o main && ./main", "main.c"),
        ("cp new.txt deploy.sh && sh deploy.sh", "new.txt"),
        ("tar xf new.tar && sh deploy.sh", "new.tar"),
        ("cat a.txt b.txt > deploy.sh; sh deploy.sh", "b.txt"),
        ("base64 -d code.b64 > deploy.sh && sh deploy.sh", "code.b64"),
    ],
)
def test_ways_round_are_seen_too(tmp_path: Path, line: str, later: str) -> None:
    for folder in ("pkg", "jobs/deep", "lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "run.py").write_text("import helper, requests\n")
    (tmp_path / "chain.py").write_text("import e1\n")
    for number in range(1, 5):
        (tmp_path / f"e{number}.py").write_text(f"import e{number + 1}\n")
    for name in ("run.pl", "run.rb", "deploy.sh"):
        (tmp_path / name).write_text("x\n")
    before = set(find_named_files(tmp_path, line))
    (tmp_path / later).write_text("1\n")
    assert later in set(find_named_files(tmp_path, line)) - before


WORKED_OUT = [
    ("run.py", "import os\nos.system('sh x' + '.txt')"),
    ("run.py", "import os\nos.system(f'sh {name}.txt')"),
    ("run.py", "import os\nos.system('sh x' '.txt')"),
    ("run.py", "import os\nos.execvp('sh', ['sh', name])"),
    ("run.py", "from os import system as s\ns('sh x' + '.txt')"),
    ("run.py", "import os\nlist(map(os.system, lines))"),
    ("run.py", "import os\ngetattr(os, 'sys' + 'tem')('sh x' + '.txt')"),
    ("run.py", "import subprocess\nsubprocess.run(['sh', name])"),
    ("run.py", "import subprocess\nsubprocess.run(['sh'], input=text)"),
    ("run.py", "import subprocess as sp\nsp.run(args=words)"),
    ("run.py", "from subprocess import run\nrun('sh x%s' % '.txt', shell=True)"),
    ("run.js", "require('child_process').execSync('sh x' + '.txt')"),
    ("run.js", "const cp = require('child_process'); cp.spawn('sh', [name])"),
    ("run.js", "require('child_process').execSync(`sh ${name}.txt`)"),
    ("run.pl", 'system "sh $name";'),
    ("run.pl", "system('sh x' . '.txt');"),
    ("run.pl", "print `sh $name`;"),
    ("run.rb", "system('sh x' + '.txt')"),
    ("run.rb", "puts `sh #{name}`"),
    ("plain", "import os\nos.system('sh x' + '.txt')"),
]
RUNNERS = {".js": "node", ".pl": "perl", ".rb": "ruby"}


@pytest.mark.parametrize(("name", "script"), WORKED_OUT)
def test_a_program_that_works_out_what_it_starts_is_bound_to_every_file(
    tmp_path: Path, name: str, script: str
) -> None:
    (tmp_path / name).write_text(script)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.txt").write_text("echo one\n")
    line = f"{RUNNERS.get(Path(name).suffix, 'python3')} {name}"
    assert find_named_files(tmp_path, line)["sub/x.txt"].by_itself
    inline = [line.split()[0], "-e" if name.endswith(("js", "pl", "rb")) else "-c", script]
    assert "sub/x.txt" in find_named_files(tmp_path, inline)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("run.py", "import os\nos.system('sh x.txt')"),
        ("run.py", "import subprocess, sys\nsubprocess.run(['sh', 'x.txt'], check=True, cwd=HERE)"),
        ("run.js", "require('child_process').execFileSync('sh', ['x.txt'])"),
        ("run.pl", "system 'sh', 'x.txt' or die;"),
        ("run.rb", "`sh x.txt`"),
    ],
)
def test_a_program_that_says_what_it_starts_is_bound_to_that(
    tmp_path: Path, name: str, script: str
) -> None:
    for file, text in ((name, script), ("x.txt", "echo one\n"), ("data.csv", "1,2\n")):
        (tmp_path / file).write_text(text)
    found = find_named_files(tmp_path, f"{RUNNERS.get(Path(name).suffix, 'python3')} {name}")
    assert set(found) == {name, "x.txt"}


def test_of_very_many_files_the_last_one_counts_too(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("import os\nos.system('sh x' + '.txt')")
    for number in range(MAX_DISCOVERED + 3):
        (tmp_path / f"t{number:04}.txt").write_text("one")
    before = find_named_files(tmp_path, "python3 run.py")
    (tmp_path / f"t{MAX_DISCOVERED + 2:04}.txt").write_text("another")
    after = find_named_files(tmp_path, "python3 run.py")
    assert len(before) <= MAX_FILES + MAX_DISCOVERED + 1
    assert {one for one in after if after[one].digest != before[one].digest} == {"other files"}


def test_of_very_many_tests_that_a_runner_finds_the_last_one_counts_too(tmp_path: Path) -> None:
    for number in range(MAX_DISCOVERED + 3):
        (tmp_path / f"test_{number:04}.py").write_text("one")
    before = find_named_files(tmp_path, "pytest -q")
    (tmp_path / f"test_{MAX_DISCOVERED + 2:04}.py").write_text("another")
    after = find_named_files(tmp_path, "pytest -q")
    assert {one for one in after if after[one].digest != before[one].digest} == {"other files"}


@pytest.mark.parametrize(
    "script",
    [
        "import platform\nprint(platform.system())",
        "import asyncio\nasyncio.run(main())",
        "print(1)",
    ],
)
def test_a_program_that_starts_nothing_is_bound_to_itself(tmp_path: Path, script: str) -> None:
    (tmp_path / "run.py").write_text(script)
    (tmp_path / "data.csv").write_text("1,2\n")
    assert set(find_named_files(tmp_path, "python3 run.py data.csv")) == {"run.py"}


@pytest.mark.parametrize(
    ("line", "later"),
    [
        ("tar -cIf ./comp a.tar notes.txt", "comp"),
        ("tar --use-compress-program=./comp -cf a.tar notes.txt", "comp"),
        ("curl -K get.cfg https://example.org", "get.cfg"),
        ("curl -o a.html https://example.org", ".curlrc"),
        ("zip -T -TT ./comp a.zip notes.txt", "comp"),
        ("rsync -e ./comp notes.txt far:", "comp"),
        ("ssh -o ProxyCommand=./comp far", "comp"),
        ("ssh -F far.cfg far", "far.cfg"),
        ("sed -n '1e./comp' notes.txt", "comp"),
        ("perl -Ilib -MThing -e 1", "lib/Thing.pm"),
        ("env PERL5LIB=lib cpan-helper", "lib/Thing"),
        ("LD_LIBRARY_PATH=lib ./app", "lib/libc.so.6"),
        ("vim -S steps notes.txt", "steps"),
        ("mocked-tool --quick", "Snakefile"),
        ("meson setup out", "sub/meson.build"),
        ("bazel build //...", "sub/BUILD"),
        ("cmake -B out", "sub/CMakeLists.txt"),
        ("cargo build", "sub/Cargo.toml"),
        ("mypy tool.py", "mypy.ini"),
        ("python3 -Bmhttp.server", "socketserver.py"),
        ("cd sub && python3 -c 'import json'", "sub/json.py"),
        ("export PYTHONPATH=lib; python3 tool.py", "lib/sitecustomize.py"),
        ("$TOOL notes.txt", "any.thing"),
        ('"$(cat where)/step"', "deep/step"),
        ("git --git-dir=other log", "other/hooks/post-checkout"),
        ("gdb -batch", ".gdbinit"),
    ],
)
def test_what_a_program_reads_or_finds_that_no_word_says_is_found(
    tmp_path: Path, line: str, later: str
) -> None:
    for folder in ("lib", "sub", "deep", "other/hooks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("words\n")
    (tmp_path / "tool.py").write_text("print(1)\n")
    before = set(find_named_files(tmp_path, line))
    (tmp_path / later).write_text("#!/bin/sh\n")
    (tmp_path / later).chmod(0o755)
    assert later in set(find_named_files(tmp_path, line)) - before, line


@pytest.mark.parametrize(
    "line",
    [
        "tar czf a.tgz notes.txt",
        "tar -xzf a.tgz -C lib --strip-components=1",
        "zip -qr a.zip lib",
        "curl -fsSL -o a.html https://example.org",
        "wget -q -O a.html https://example.org",
        "sort -t, -k2 data.csv",
        "git status --short",
        "git commit -qm words",
        "git log --oneline -5",
        "black -q tool.py",
        "pandoc --toc -V a=b",
        "LANG=C ls -la",
        "find lib -name '*.md' -newer notes.txt",
    ],
)
def test_ordinary_options_bind_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("notes.txt", "data.csv", "tool.py", "a.tgz", "lib/part.py"):
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / ".git/objects").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/config").write_text("[core]\n\tbare = false\n[user]\n\tname = me\n")
    assert find_named_files(tmp_path, line) == {}


@pytest.mark.parametrize(
    ("name", "script", "line"),
    [
        ("go.sh", 'D=tools\nsh "$D/one.sh"\nout=$(date)\necho "$out"\n', "sh go.sh"),
        ("go.sh", "PYTHON=${PYTHON:-python3}\n$PYTHON tools/one.py\n", "sh go.sh"),
        ("Makefile", "CFLAGS = -O2\nall: $(OBJS)\n\t$(CC) $(CFLAGS) -o a a.c\n", "make"),
        ("go.sh", 'cd "$(dirname "$0")"\nfor f in a b; do echo "$f"; done\n', "sh go.sh"),
    ],
)
def test_a_program_that_is_plain_after_all_is_not_bound_to_every_file(
    tmp_path: Path, name: str, script: str, line: str
) -> None:
    (tmp_path / "tools").mkdir()
    for file, text in ((name, script), ("tools/one.sh", "1\n"), ("data.csv", "1,2\n")):
        (tmp_path / file).write_text(text)
    assert "data.csv" not in find_named_files(tmp_path, line)
