"""Commands that no walk runs, each with the reason. A test checks that none is stale."""

from collections.abc import Mapping

from tests.docs.pages import PageCommand

INSTALLS = "changes the machine, or takes minutes from a package index; .ci/venv installs the same"
SUITE = "a suite of its own, which takes minutes"
SYSTEMD = (
    "changes a machine that systemd runs; tests/systemd judges the units and starts what they do"
)
COMPOSE = "`make deploy-test` does what the page says, on an engine"
KUBERNETES = (
    "there is no Kubernetes; tests/kubernetes renders the chart and validates what comes out"
)
ELSEWHERE = "needs the other machines, which are not there"
SERVERS = "changes the servers of a machine, as its administrator"

NOT_RUN: Mapping[tuple[str, str], str] = {
    ("README.md", "make demo"): "`.ci/run` runs it on a fresh clone",
    ("README.md", "make up"): "the tutorial runs `pyspider-zk up`, which is all that it does",
    ("CONTRIBUTING.md", "make"): "the suites, of which these tests are a part",
    ("docs/how-to/install.md", "sudo"): INSTALLS,
    ("docs/how-to/install.md", "python3 -m venv"): INSTALLS,
    ("docs/how-to/install.md", ". .venv"): INSTALLS,
    ("docs/how-to/install.md", "pip"): INSTALLS,
    ("docs/how-to/databases.md", "pip"): INSTALLS,
    ("docs/how-to/look.md", "pyspider-zk task "): "needs a task, as in tests/cli/test_tasks.py",
    ("docs/how-to/render.md", ""): "needs Chromium; tests/rendering does what the page says",
    (
        "docs/how-to/back-up.md",
        "pyspider-zk",
    ): "the cluster must end in between, as in tests/backup",
    ("docs/how-to/change-slots.md", "pyspider-zk"): "the cluster must be stopped, as in tests/cli",
    ("docs/how-to/deploy-compose.md", ""): COMPOSE,
    ("docs/how-to/deploy-kubernetes.md", ""): KUBERNETES,
    ("docs/how-to/deploy-systemd.md", ""): SYSTEMD,
    ("docs/how-to/operate.md", "systemctl"): SYSTEMD,
    (
        "docs/how-to/fail-over.md",
        "",
    ): "needs three machines; test_fail_over_servers.py uses the page's files on one",
    ("docs/tutorial/first-cluster.md", "sudo"): INSTALLS,
    ("docs/tutorial/first-cluster.md", "cd ~/pyspider-zk"): INSTALLS,
    ("docs/tutorial/first-cluster.md", "python3 -m venv"): INSTALLS,
    ("docs/tutorial/first-cluster.md", "pip"): INSTALLS,
    ("docs/tutorial/first-cluster.md", ". ~/pyspider-zk"): INSTALLS,
    ("docs/tutorial/three-machines.md", "sudo"): SERVERS,
    ("docs/tutorial/three-machines.md", "echo 1 | sudo"): SERVERS,
    ("docs/tutorial/three-machines.md", 'echo "host'): SERVERS,
    (
        "docs/tutorial/three-machines.md",
        "/usr/share/zookeeper",
    ): "asks a ZooKeeper of Debian's package, which is not installed",
    ("docs/tutorial/three-machines.md", "pip"): INSTALLS,
    ("docs/tutorial/three-machines.md", "ssh"): ELSEWHERE,
    ("docs/tutorial/three-machines.md", "scp"): ELSEWHERE,
    ("tests/attack/README.md", ""): SUITE,
    ("tests/chaos/README.md", ""): SUITE,
    ("tests/deploy/README.md", ""): SUITE,
    ("tests/fuzz/README.md", ""): SUITE,
    ("tests/hostile/README.md", ""): SUITE,
}
"""Page, beginning of the command -> why it is not run."""


def entry_of(command: PageCommand) -> tuple[str, str] | None:
    """Return the entry that keeps a command from being run, if one does."""
    for page, beginning in NOT_RUN:
        if command.page == page and command.text.startswith(beginning):
            return page, beginning
    return None
