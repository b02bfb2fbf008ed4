"""Which files a script may run beside those that its words name: programs that it starts, modules
that it loads. What it works out may be any file.

It errs towards "worked out": then more files are bound than run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from daemon.tools.shell.parse import expand_braces
from daemon.tools.shell.safe_commands import PROGRAMS
from daemon.tools.stemming import word_set

PYTHON, SHELL, NODE = (
    (".py",),
    (".sh", ".bash", ".zsh"),
    (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"),
)
ANY = ("",)
CODE = (*SHELL, *PYTHON, *NODE, ".rb", ".pl", ".pm", ".php", ".lua", ".mk")
# What a program of which nothing is known may find by itself.
BUILDS = (*CODE, "file", ".build", ".toml", ".bzl", ".cmake", ".gradle", ".tf", ".nix")
JAVA = (".java", ".kt", ".kts", ".groovy", ".scala", ".gradle")
# They find by themselves what they run: any file with such an ending.
DISCOVERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("pytest", "py.test", "unittest", "tox", "nox", "pre-commit", "invoke"), PYTHON
    ),
    **dict.fromkeys(("hatch", "pdm", "poetry", "uv", "pip", "pip3"), PYTHON),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun", "npx", "deno", "jest", "vitest", "mocha", "playwright"), NODE
    ),
    **dict.fromkeys(("vite", "webpack", "rollup", "eslint"), NODE),
    **dict.fromkeys(("mvn", "gradle", "gradlew", "ant"), JAVA),
    "cargo": (".rs", "Cargo.toml"),
    "go": (".go", ".c", ".h", ".s", ".S"),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++"),
        (".c", ".h", ".cc", ".cpp", ".hpp", ".inc", ".inl", ".S"),
    ),
    "perl": (".pl", ".pm", ".so"),
    "ruby": (".rb", ".so"),
    "php": (".php", ".inc"),
    **dict.fromkeys(("lua", "luajit"), (".lua", ".so")),
    **dict.fromkeys(("rake", "bundle"), (".rb",)),
    "composer": (".php",),
    **dict.fromkeys(("cmake", "ctest"), ("CMakeLists.txt", ".cmake", ".cmake.in")),
    "meson": ("meson.build", ".py", ".sh"),
    **dict.fromkeys(("bazel", "bazelisk"), ("BUILD", ".bazel", ".bzl", ".bazelrc")),
    "scons": ("SConscript", *PYTHON),
}
PYTHON_FILES = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini")
TEST_FILES = ("conftest.py", "*/conftest.py", "pytest.ini", ".pytest.ini", *PYTHON_FILES)
NODE_FILES = ("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs")
JAVA_FILES = ("pom.xml", "build.gradle*", "settings.gradle*", "gradle.properties", "build.xml")
RUST_FILES = ("Cargo.toml", "build.rs", ".cargo/config*", "rust-toolchain*")
BUILD_FILES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("make", "gmake", "bmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "corepack"), NODE_FILES),
    **dict.fromkeys(("pytest", "py.test", "tox", "nox", "unittest"), (*TEST_FILES, "noxfile.py")),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pdm", "hatch"), PYTHON_FILES),
    **dict.fromkeys(("mvn", "gradle", "gradlew", "ant"), JAVA_FILES),
    "docker": ("*ockerfile*", "*compose*.y*ml", ".dockerignore"),
    "terraform": ("*.tf", "*.tfvars"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.y*ml",),
    "cargo": RUST_FILES,
    "go": ("go.mod",),
    "rake": ("Rakefile", "rakefile"),
    "bundle": ("Gemfile", "Rakefile"),
    "composer": ("composer.json",),
    "cmake": ("CMakeLists.txt", "CMakePresets.json"),
    "ninja": ("build.ninja",),
    "invoke": ("tasks.py",),
    "deno": ("deno.json*", "package.json"),
    "pre-commit": (".pre-commit-config.yaml",),
    "meson": ("meson.build", "meson_options.txt", "meson.options"),
    **dict.fromkeys(("bazel", "bazelisk"), (".bazelrc", "tools/bazel", "*.bazel", "WORKSPACE*")),
    "scons": ("SConstruct", "Sconstruct", "sconstruct"),
    "mypy": ("mypy.ini", ".mypy.ini", "setup.cfg", "pyproject.toml"),
    "flake": (".flake8", "setup.cfg", "tox.ini"),
    "prettier": (".prettierrc*", "prettier.config.*", ".editorconfig", "package.json"),
    **dict.fromkeys(
        ("jest", "vitest", "vite", "webpack", "rollup", "eslint", "tsc", "mocha", "playwright"),
        ("package.json", "*.config.*", "tsconfig*.json", ".*rc", ".*rc.*"),
    ),
}  # fmt: skip
OUTPUT_FOLDERS = word_set(
    "node_modules .venv venv .git __pycache__ dist build out target coverage .next .cache .tox .nox"
    " .pytest_cache .mypy_cache .ruff_cache site-packages .idea .gradle"
)
# They run the first file that they are given; without one, their input.
INTERPRETERS = word_set(
    "sh bash dash zsh ksh fish ash python pypy perl ruby node nodejs php lua luajit tclsh expect"
    " rscript julia deno bun ts-node tsx elixir groovy java osascript guile swipl source ."
    " eval exec xargs parallel env busybox script su run-parts"
)
# They only look at what they are given, or move it.
INERT = (frozenset(PROGRAMS) - INTERPRETERS - {"gcc"}) | word_set(
    "cp mv rm mkdir rmdir touch chmod chown ln install tee tar zip unzip gzip gunzip xz ruff black"
    " isort flake8 mypy pyright pyrefly prettier rustfmt gofmt curl wget"
    " shellcheck cd pushd popd test [ export set sleep kill less more nano vi"
)
FILTERS = word_set("sed awk gawk mawk jq")  # their program is a word, or behind a flag
# They take what they are given; of all others nothing is known.
KNOWN = word_set("""
    ffmpeg ffprobe pandoc convert magick identify sqlite psql mysql pdftotext pdfinfo qpdf gs rsync
    ssh scp sftp dd split csplit shuf bc dc factor expr openssl gpg ping dig host ip ss ps top pgrep
    gh aws kubectl gcc g++ cc c++ clang clang++ rustc javac ld ar nm objdump strip readelf cpio p
    exiftool optipng cwebp inkscape dot tesseract yt-dlp xmllint xsltproc yq mlr duckdb cloc aspell
    hunspell zstd bzip bunzip unxz patch diffstat iconv truncate mktemp mkfifo sync wait read trap
    shift return exit : jobs fg bg alias unset declare local timeout time nice nohup stdbuf setsid
    sudo doas ionice chrt flock git man which type command if then else elif fi for while until do
    done case esac { } ! [[ ]] function select in lualatex pdflatex xelatex bibtex latexmk typst
    groff nc socat unrar rar 7z bsdtar shred fmt pr expand unexpand join tsort look ncal numfmt lsof
""")
# Options of programs that only look or move; any other may start something.
PLAIN_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "tar": re.compile(
        r"-?[AcdrtuxzjJaZvkpmPhSOoWfCTXlnUw]+\d*|--(create|extract|get|list|append|update|file"
        r"|directory|exclude[\w-]*|strip-components|verbose|gzip|xz|bzip2|zstd|auto-compress|touch"
        r"|no-same-\w+|owner|group|mtime|sort|null|files-from|keep-\S+|overwrite|transform"
        r"|wildcards|numeric-owner|format|totals|remove-files|dereference|one-file-system)(=.*)?"
    ),
    "zip": re.compile(r"-[rqjmuyxidevlXoDSFA0-9@]+|--(recurse-paths|quiet|exclude|junk-paths)"),
    "curl": re.compile(
        r"-[sSfLkiIvgO#GjNRJn]*([oXHdAuebcmTFrwxYyz].*)?|--(silent|show-error|fail[\w-]*|location"
        r"|output|request|header|data[\w-]*|user(-agent)?|max-time|retry[\w-]*|compressed|head"
        r"|include|insecure|connect-timeout|url|json|form|remote-name|progress-bar|http[\d.]+|get"
        r"|write-out|cookie(-jar)?|referer|range|output-dir|create-dirs|upload-file)(=.*)?"
    ),
    "wget": re.compile(
        r"-[qcNSvbrkpEHLxK]*(n[cvdH]+|[OPTtlRAUwQ].*)?|--(quiet|continue|output-document|tries"
        r"|timeout|no-[\w-]+|user-agent|header|directory-prefix|recursive|level|mirror|timestamping"
        r"|spider|page-requisites|convert-links|post-data|show-progress|progress|wait)(=.*)?"
    ),
    "sort": re.compile(r"-[bdfghinMRrVcCmosuzktST].*|--(?!compress)[\w-]+(=.*)?"),
    "rg": re.compile(r"(?!--pre|--hostname-bin|-\w*z|--search-zip)-.*"),
    "install": re.compile(r"(?!--strip)-.*"),
    "git": re.compile(
        r"(?!-[cxO]|--(exec|upload|receive|config|open|tool|extcmd|template|git-dir|gpg|strategy))-.*"
    ),
    **dict.fromkeys(("less", "more", "vi", "nano", "mypy", "prettier", "flake"), re.compile(
        r"--(write|check|list-different|strict|version|help|max-line-length)(=.*)?|-[wlcNRSFX]"
    )),
}  # fmt: skip
# What programs read by themselves where they start, or at home: HOME is the workspace.
START_UP = (
    ".*rc", ".*rc.*", ".*init", ".*init.*", ".*profile", ".*login", ".*.cnf", ".*.conf", ".zshenv",
    ".lesskey", ".Renviron", ".pnpmfile.cjs", ".ghci", ".erlang", ".config/*rc", ".config/*.toml",
    ".config/*/*config*", ".config/*/*rc", ".config/*/*.conf", ".config/*/*.toml",
    ".config/*/*.ini", ".config/*/init.*", ".config/fish/*.fish", ".config/fish/conf.d/*",
    ".config/*/*.json", ".cargo/config*", ".gradle/init*", ".gradle/init.d/*", ".mvn/*",
    ".gradle/gradle.properties", ".m2/settings*.xml", ".docker/config.json", ".bundle/config",
    ".pip/pip.conf", ".julia/config/startup.jl", ".R/Makevars", ".vim/*/*.vim",
    ".local/lib/python*/*/*.p[ty]*",
)  # fmt: skip
# Variables that say where programs, modules or settings are.
SET = re.compile(r"\b(\w{1,80})\+?=[\"']?([^\s\"';&|()]+)")
SEARCHED = re.compile(
    r"\w*PATH|\w+LIB|\w*HOME|\w*BASE|LD_\w+|GIT_\w+|XDG_\w+|\w*CONFIG\w*|\w+OPTIONS|ZDOTDIR"
    r"|\w*ENV|\w*EDITOR|\w*PAGER|\w*SHELL|\w*STARTUP|\w+OPTS?|\w*ASKPASS|\w+_COMMAND|\w*BROWSER"
)
# Beside something that runs, they may put in its place what they are given (base: base64).
MOVERS = word_set("cp mv ln install tar zip unzip gzip gunzip xz tee cat rsync dd sort base")
CODE_NAME = re.compile(
    r"(?i).*\.(sh|bash|zsh|ksh|fish|py|pyw|pth|js|mjs|cjs|ts|mts|cts|tsx|jsx|rb|pl|pm|php|lua|awk"
    r"|sed|mk|mak|cmake|gradle|kts|groovy|jar|class|so|c|cc|cpp|h|hpp|rs|go|java|kt|ps1|bat|tcl|exp|r|jl|ex|exs|el|just|nix)"
)
PLAIN_PIECE = re.compile(r"[\w.@%+/~-]+")
IMPORT = re.compile(r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+([\w, *()]+)|import\s+([\w., ]+))")
REQUIRED = re.compile(r"""(?:from|require\(|import\(?)\s*["'](\.{1,2}/[^"'\n]{1,200})["']""")
JS_ENDINGS = (
    "",
    "/package.json",
    ".node",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".tsx",
    ".json",
    "/index.js",
    "/index.ts",
)
# What git starts by itself.
HOOKS = word_set("""
    pre-commit prepare-commit-msg commit-msg post-commit pre-push pre-rebase post-rewrite
    post-checkout post-merge pre-merge-commit applypatch-msg pre-applypatch post-applypatch
    reference-transaction pre-auto-gc
""")
SHELL_KIND = re.compile(r"(?i).*\.(sh|bash|zsh|ksh|mk)|makefile|gnumakefile|[^.#]+|#!.*sh\b.*")
# A command, a program for an interpreter or a search path that is worked out.
COMPUTED = re.compile(
    r"(?m)(?:^|[;&|(`]|\b(?:do|then|else|exec|sudo|nohup|env|xargs|eval))"
    r"[ \t@+-]*[\"']?[\w./-]*[$`](?!\()[\w({][^\s=]*[\"']?(?:\s|$)"
    r"|(?:\b(?:ba|z|k|da)?sh|\bpython[\d.]*|\bnode|\bperl|\bruby|\bphp|\bsource|(?<=\s)\.)"
    r"[ \t]+(?:-\w+[ \t]+)*[\"']?[^\s;&|\"']*[$`]"
)
# What a text of a program takes in as a part of it, under any name.
INCLUDED = re.compile(
    r"(?:#[ \t]{0,9}include|\b(?:include!?|include_once|require|require_once|require_relative|load"
    r"|do|dofile|loadfile))[ \t]{0,9}\(?[ \t]{0,9}[\"']([^\"'\n]{1,200})[\"']"
    r"|\"(?:main|module|bin|browser|default|node)\"[ ]{0,9}:[ ]{0,9}\"([^\"\n]{1,200})\""
)
MADE_INTO = re.compile(r"(?m)^[ ]{0,9}[-s]?include[ \t]+(\S.{0,500})")  # of a Makefile
# In a line of a script: what is a program for the one in front.
READERS = r"(?:(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby|node|php|lua|tclsh|Rscript|osascript)"
GIVEN = re.compile(
    rf"(?m)(?:(?:^|[\s;&|('\"`@])(?:{READERS}|source|\.)(?=[ \t])"
    r"|\b(?:[gm]?awk|sed|g?make|jq|ssh|gdb)\b[^\n;&|]{0,200}?[ \t](?:-f|--file=?|-F|-x))"
    r"[ \t]{0,9}([^\n;&|]{0,300})"
)
TAKES_INPUT = re.compile(
    rf"\|[ \t]{{0,9}}(?:sudo )?(?:{READERS}|sqlite3|psql|mysql|bc|ed|at|xargs)\b"
    rf"|\b(?:{READERS}|sqlite3|psql|mysql|bc|ed|at|xargs)\b[^\n|;&]{{0,200}}<"
)
# Data that is a program for who reads it.
LOADED = (".pkl", ".pickle", ".bin", ".joblib", ".dat", ".ini", ".cfg", ".conf", ".yaml", ".yml")
LOADS = re.compile(
    r"\b(?:pickle|marshal|shelve|dill|joblib|Unpickler|fileConfig|unserialize|Storable|Marshal"
    r"|yaml\.(?:unsafe_|full_)?load|YAML\.(?:unsafe_)?load)\b"
)
MOVES = re.compile(r"(?:\b(?:cd|pushd)|-C)[ \t]{1,9}[\"']?[^\s;&|$`*]{0,200}[$`*]")
BESIDE = re.compile(
    r"(?<![\w/])\./(?:[\w.+-]+/)*([\w.+-]+)|\b(?:sh|bash|python\d?|node)[ ]+([\w.+-]+)"
)
SETS_WORDS = re.compile(r"\bset[ \t]+--[^\n]{0,200}[$`]")
# A make's recipe whose program is worked out; those in front are the system's if it says nothing.
RECIPE = re.compile(
    r"(?m)(?:^\t|(?<=[;&|(`]))[ \t@+-]{0,40}[\"']?[\w./-]{0,200}"
    r"\$(?:[({](?!(?:MAKE|CC|CXX|CPP|LD|AR|AS|FC|RM|info|warning|error)[)} ])|\w)[^\s;&|]*"
)
AT_START = re.compile(
    r"(?m)(?:(?:^|[;&|(`]|\b(?:do|then|else|exec|sudo|nohup|env|xargs|eval)\b)[ \t@+-]{0,40}"
    r"|(?:\b(?:ba|z|k|da)?sh|\bpython[\d.]*|\bnode|\bperl|\bruby|\bphp|\bsource|(?<=\s)\.)"
    r"[ \t]{1,9}(?:-\w{1,40}[ \t]{1,9}){0,20})[\"']?[\w./-]{0,200}(?=\$[\w({]|`)"
    r"((?:\$\((?:[^()\n]|\([^()\n]{0,200}\)){0,400}\)|`[^`\n]{0,400}`|[^\s;&|()`]){1,400})"
)
ASSIGNED_ONCE = re.compile(
    r"(?m)^[ ]*(?:export[ ]+)?(\w+)[ ]*[:?]?=[ ]*[\"']?(?:\$\{\w+:-)?([\w./~-]*)\}?[\"']?[ \t]*$"
)
SETS = re.compile(r"\b(\w{1,80})[ ]{0,9}[:?+]?=|\bfor (\w{1,80})\b")
USED = re.compile(r"\$(?:\{(\w{1,80})\}|\((\w{1,80})\)|(\w{1,80}))")
REASSIGNS = re.compile(
    r"(?m)\b(?:read|source|eval|mapfile|readarray|getopts|declare|include|define|call)\b"
    r"|(?:^|\s)\.\s"
)
LAST_PIECE = re.compile(r"/([\w.@%+-]*[\w@%+-])[\"']?[ \t]*$")
# A script that works out what it loads may load any of its kind.
DYNAMIC = (
    (SHELL_KIND, re.compile(r"[$`]"), SHELL),
    (re.compile(r".*\.(rb|pl|pm|php|lua)"), re.compile(""), (".rb", ".pl", ".pm", ".php", ".lua")),
    (
        re.compile(r".*\.pyw?|#!.*python.*"),
        re.compile(r"importlib|__import__|runpy|pkgutil|sys\.path"),
        PYTHON,
    ),
    (re.compile(r".*\.pyw?|#!.*python.*"), re.compile(r"\b(exec|eval|execfile)\("), ANY),
    (SHELL_KIND, COMPUTED, CODE),
    (SHELL_KIND, re.compile(r"\bPATH\+?="), ANY),
    (
        re.compile(r".*\.[cm]?[jt]sx?|#!.*node.*"),
        re.compile(r"(require|import)\(\s*[^\s\"')]"),
        NODE,
    ),
)
PROGRAMMING = re.compile(
    r"python|pypy|perl|ruby|node|php|\blua|\bdeno|\bbun\b|\btsx?\b|ts-node"
    r"|\.(pyw?|rb|pl|pm|php|lua|[cm]?[jt]sx?)\b"
)
QUOTING = re.compile(r"perl|ruby|php|\.(rb|pl|pm)\b")
STARTERS = (
    r"system|popen\w*|Popen|posix_spawnp?|spawn\w*|exec[lv]\w*|execSync|execFile\w*|check_call"
    r"|check_output|getoutput|getstatusoutput|create_subprocess_\w+|passthru|shell_exec|proc_open"
    r"|capture[23]\w*|Deno\.Command"
)
# Names of many things; of starters where the script has such a sign.
WEAK = (
    ("subprocess", r"(?<!asyncio\.)\b(?:run|call)"),
    ("child_process", r"\b(?:exec|fork)"),
    ("exec ", r"(?<![.\w])exec(?=\s+[\"'$@])"),
)
MODULES = r"os|subprocess|sp|child_process|cp|Kernel|Open3|IO|pty"
# Not called but handed on, or under a name of its own.
HANDED_ON = re.compile(
    rf"getattr\(\s*(?:{MODULES})\b|\b(?:{STARTERS})\s+as\b"
    rf"|\b(?:{MODULES})\s*\.\s*(?:{STARTERS}|run|call|exec)\b(?!\s*[\w(\"'])"
    r"|\b(?:exec|spawn)\w*\s*:|\bctypes\b|\bpromisify\b"
)
BACKTICKS = re.compile(r"`([^`]*)`|(?:%x|\bqx)\s*[{(\[/|!]([^})\]/|!]*)")
TEXT = re.compile(r"""(?<![\w"'\\])[rbuRBU]{0,2}(?:"([^"\\\n]*)"|'([^'\\\n]*)')(?![\w"'])""")
CONSTANT = re.compile(
    r"\b(?:cwd|env|shell|check|text|timeout|encoding|capture_output|stdout|stderr|stdio|errors"
    r"|universal_newlines)\s*[=:]\s*[\w.]+(?:\(\))?|os\.P_\w+"
)
CONSTANT_PROGRAMS = (("sys.executable", "'python'"), ("process.execPath", "'node'"))
PLAIN_CALL = re.compile(r"[\s,()\[\]{}]*(?:\0\s*[,()\[\]{}][\s,()\[\]{}]*)*\0?\s*")
ENDS = re.compile(r"[;\n]|\b(?:or|and|if|unless)\b|\|\||&&")
WORKED_OUT = re.compile(r"\$[\w({]|[@#]\{|@\w")
MAX_CALL, MAX_CALLS, MAX_PATH = 2000, 200, 1000
VARIABLE = re.compile(r"\$\{?\w+\}?")
EACH = re.compile(
    r" -(?:exec|execdir|ok|okdir) (?:\{|(?:\S*/)?(?:env|sh|bash|python[\d.]*|node|perl) )"
)
OUTPUT = re.compile(r"[\d&]*>[>|&]*")
BETWEEN = re.compile(r"[;&|\n()]+")


def list_dynamic(name: str, first: str, text: str) -> set[str]:
    """The endings of what a script may load, by its name and first line."""
    found: set[str] = set()
    for kind, sign, endings in DYNAMIC:
        if (kind.fullmatch(name) or kind.fullmatch(first)) and sign.search(text):
            found.update(endings)
    return found


def expand_assigned(text: str) -> str:
    """With what variables hold that are plainly assigned, once."""
    if REASSIGNS.search(text):
        return text
    times = Counter(name or loop for name, loop in SETS.findall(text))
    plain = {name: said for name, said in ASSIGNED_ONCE.findall(text) if times[name] == 1 and said}
    return USED.sub(lambda found: plain.get(found[1] or found[2] or found[3], found[0]), text)


def list_computed(name: str, first: str, text: str) -> set[str]:
    """The endings of what may run where the program of a line is worked out: all files of the name
    that it ends with, or any.
    """
    if not (SHELL_KIND.fullmatch(name) or SHELL_KIND.fullmatch(first)):
        return set()
    is_make = bool(re.fullmatch(r"(?i)(gnu)?makefile|.*\.mk", name))
    found: set[str] = set()
    for match in (RECIPE if is_make else AT_START).finditer(text):
        last = LAST_PIECE.search(match[0])
        found.update((last[1],) if last else ANY)
    if MOVES.search(text):
        found.update(one or other for one, other in BESIDE.findall(text))
    if SETS_WORDS.search(text):
        found.update(ANY)
    if is_make and MADE_INTO.search(text):
        found.update((".mk", ".d", ".inc"))
    return found


def list_given(name: str, first: str, text: str) -> Iterator[list[str]]:
    """Words of which the first that is a file runs, in a script for a shell."""
    if SHELL_KIND.fullmatch(name) or SHELL_KIND.fullmatch(first) or name == "package.json":
        for match in GIVEN.finditer(text):
            yield [one for one in PLAIN_PIECE.findall(match[1]) if one[0] != "-"]
        for line in text.split("\n"):
            if TAKES_INPUT.search(line):
                yield from ([one] for one in PLAIN_PIECE.findall(line[:MAX_CALL]))


def find_started(kind: str, text: str) -> list[list[str]] | None:
    """The words of each call that starts a program; a word alone is a line for a shell. None where
    one is not plain. `kind` has the names of languages or endings.
    """
    if not PROGRAMMING.search(kind):
        return []
    if HANDED_ON.search(text):
        return None
    found = _find_quoted(text) if QUOTING.search(kind) else []
    names = "|".join([rf"\b(?:{STARTERS})", *(weak for sign, weak in WEAK if sign in text)])
    for match in re.finditer(rf"(?:{names})(?=\s*\((?!\s*\))|\s+[\"'$@%])", text):
        if text[: match.start()].endswith(("def ", "function ", "sub ")):
            continue
        words = _read_call(text[match.end() : match.end() + MAX_CALL])
        if words is None or len(found) >= MAX_CALLS:
            return None
        found.append(words)
    return None if any(WORKED_OUT.search(word) for words in found for word in words) else found


def _find_quoted(text: str) -> list[list[str]]:
    """Lines between backticks."""
    return [["".join(match.groups(""))] for match in BACKTICKS.finditer(text)]


def _read_call(text: str) -> list[str] | None:
    """Its words; None where they are more than words between quotes."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.append(match[1] or match[2] or "")
        return "\0"

    for constant, program in CONSTANT_PROGRAMS:
        text = text.replace(constant, program)
    plain = TEXT.sub(take, text.replace("\0", "?").lstrip())
    call = CONSTANT.sub("", plain[: _find_end(plain)])
    words: Sequence[str] = found[: call.count("\0")]
    return [*words] if words and PLAIN_CALL.fullmatch(call) else None


def _find_end(plain: str) -> int:
    """Behind the bracket that closes the first one, or where the statement ends; 0 for nowhere."""
    if not plain.startswith("("):
        end = ENDS.search(plain)
        return end.start() if end else len(plain)
    depth = 0
    for at, sign in enumerate(plain):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return at + 1
    return 0


def find_odd_options(program: str, words: Sequence[str]) -> set[int]:
    """Where in these words one is that may start a program, as far as we know, with its value."""
    plain = PLAIN_OPTIONS.get(program)
    found: set[int] = set()
    for at, word in enumerate(words if plain else ()):
        bundled = program == "tar" and at == 1 and re.fullmatch(r"[a-zA-Z]+", word)
        is_option = bundled or (at and word[:1] in ("-", "+") and word not in ("-", "--"))
        if plain and is_option and not plain.fullmatch(word):
            single = not bundled and (len(word) == 2 or "/" in word or word.startswith("--"))
            found.update(range(at, at + 2 if single else len(words)))
    return found


def list_worked_out(words: Sequence[str], head: int) -> set[str]:
    """The endings of what may run where the program, or its script, is worked out."""
    places = [head]
    for at, word in enumerate(words):
        if name_program(word) in INTERPRETERS:
            rest = range(at + 1, len(words))
            places.append(next((one for one in rest if words[one][:1] != "-"), at))
    found: set[str] = set()
    for word in (
        re.sub(r"^\$\{?(HOME|PWD)\}?/", "", words[at]) for at in places if at < len(words)
    ):
        if re.match(r"[\w./-]*[$`]", word) and not re.search(r"[\s=]", word):
            last = LAST_PIECE.search(word)
            found.update((last[1],) if last else ANY)
    return found


def split_segments(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands between the operators, without the files that they write."""
    segment: list[str] = []
    skip = False
    for word in words:
        if BETWEEN.fullmatch(word):
            yield segment
            segment = []
        elif OUTPUT.fullmatch(word):
            skip = True
            continue
        elif not skip:
            segment.append(word)
        skip = False
    yield segment


def is_unclear(words: Sequence[str]) -> bool:
    """It runs its input, or what is decided only then."""
    for at, word in enumerate(words):
        if (program := name_program(word)) in INTERPRETERS:
            rest = words[at + 1 :]
            plain = [one for one in rest if not one.startswith("-")]
            reads_input = not plain or plain[0].startswith(("<", "/dev/", "/proc/"))
            flagged = any(re.fullmatch(r"-|-\w*s\w*|.*[$`].*", one, re.DOTALL) for one in rest)
            if reads_input or flagged or program in ("xargs", "parallel"):
                return True
    return False


def name_program(word: str) -> str:
    """`python` for `/usr/bin/python3.11`."""
    name = "." if word == "." else PurePosixPath(word).name.lower()
    return name if name == "." else re.sub(r"[\d.]+$", "", name) or name


def list_pieces(word: str) -> list[str]:
    """The parts of a word that may be a path."""
    tried: dict[str, None] = {}
    for whole in expand_braces(word):
        plain = VARIABLE.sub("", whole).lstrip("/") if "$" in whole else whole
        pieces = PLAIN_PIECE.findall(whole)
        for piece in (whole, plain, *pieces, *(one.lstrip("-") for one in pieces)):
            tried[piece] = None
            if "./" in piece[1:]:  # as in 1e./step
                tried[piece[piece.index("./", 1) :]] = None
            if re.match(r"-\w", piece):  # as in -fMakefile
                tried[piece[2:]] = None
    return [one for one in tried if one and "\0" not in one and len(one) < MAX_PATH]
