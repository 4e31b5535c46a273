"""Variables that Kubernetes and Docker set for services do not stop a command without a word."""

import pytest

from tests.cli.conftest import Run

QUEUE = ("--message-queue", "redis://127.0.0.1:1/0")
PLACE = "tcp://10.0.0.1:5000"


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        ("webui", "WEBUI_PORT"),
        ("scheduler", "SCHEDULER_XMLRPC_PORT"),
        ("fetcher", "FETCHER_XMLRPC_PORT"),
    ],
)
def test_the_address_of_a_service_is_no_port_of_ours(run: Run, command: str, variable: str) -> None:
    result = run(*QUEUE, command, "--help", env={variable: PLACE})
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        f"Warning: {variable}={PLACE} is ignored: Kubernetes or Docker set it for a service of that"
        " name; the pod's enableServiceLinks: false keeps it away\n"
    )


def test_what_is_no_port_otherwise_is_told_as_before(run: Run) -> None:
    result = run(*QUEUE, "webui", env={"WEBUI_PORT": "http"})
    assert result.exit_code == 2
    assert "'http' is not a valid integer" in result.stderr


def test_what_kubernetes_sets_for_our_own_services_is_no_setting(run: Run) -> None:
    linked = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "5000",
        "SERVICE_PORT_WEBUI": "5000",
        "PORT": PLACE,
        "PORT_5000_TCP": PLACE,
        "PORT_5000_TCP_PROTO": "tcp",
        "PORT_5000_TCP_PORT": "5000",
        "PORT_5000_TCP_ADDR": "10.0.0.1",
    }
    names = ("PYSPIDER_ZK", "PYSPIDER_ZK_WEBUI")
    environ = {f"{name}_{end}": value for name in names for end, value in linked.items()}
    result = run("--zookeeper", "h:p:q", "status", env=environ)
    assert result.stderr.count("\n") == 1, result.stderr
    assert "hosts: 'h:p:q'" in result.stderr


def test_a_setting_of_ours_that_looks_like_one_is_still_unknown(run: Run) -> None:
    result = run("status", env={"PYSPIDER_ZK_PORT": "5000"})
    assert result.exit_code == 2
    assert "PYSPIDER_ZK_PORT: there is no setting 'port'" in result.stderr


@pytest.mark.parametrize(
    ("name", "missing", "instead"),
    [
        ("MYSQL_NAME", "MYSQL_PORT_3306_TCP_ADDR", "--taskdb, --projectdb and --resultdb"),
        ("PHANTOMJS_NAME", "PHANTOMJS_PORT_25555_TCP", "--phantomjs-proxy"),
        ("RABBITMQ_NAME", "RABBITMQ_PORT_5672_TCP_ADDR", "--message-queue"),
    ],
)
@pytest.mark.parametrize("command", ["processor", "all", "one"])
def test_half_a_link_is_told_by_name(
    run: Run, command: str, name: str, missing: str, instead: str
) -> None:
    queue = () if name == "RABBITMQ_NAME" else QUEUE
    result = run(*queue, command, env={name: "/web/other"})
    assert result.exit_code == 2
    told = f"environment, {name}: stands for a linked container, and {missing} is missing: unset"
    assert told in result.stderr
    assert instead in result.stderr


def test_a_linked_mongodb_is_refused_like_another(run: Run) -> None:
    link = {"ADDR": "10.0.0.1", "PORT": "27017"}
    environ = {f"MONGODB_PORT_27017_TCP_{end}": value for end, value in link.items()}
    result = run(*QUEUE, "processor", env={"MONGODB_NAME": "/web/mongodb", **environ})
    assert result.exit_code == 2
    assert "environment, MONGODB_NAME: MongoDB is not supported: use sqlite" in result.stderr


@pytest.mark.parametrize("name", ["MYSQL_NAME", "MONGODB_NAME", "PHANTOMJS_NAME"])
def test_a_link_that_is_not_needed_stops_nothing(run: Run, name: str) -> None:
    databases = [f"--{kind}db=sqlite+{kind}db:///{kind}" for kind in ("task", "project", "result")]
    given = (*databases, "--phantomjs-proxy", "127.0.0.1:1", "--data-path", "d")
    result = run(*QUEUE, *given, "send-message", "p", "hello", env={name: "/web/other"})
    assert result.exit_code == 3
    assert "the scheduler does not answer" in result.stderr


def test_half_a_link_to_a_scheduler_is_told_by_name(run: Run) -> None:
    result = run("--data-path", "d", "send-message", "p", "hello", env={"SCHEDULER_NAME": "x"})
    assert result.exit_code == 2
    assert "environment, SCHEDULER_NAME: stands for a linked container" in result.stderr
    assert "SCHEDULER_PORT_23333_TCP is missing: unset it, or give --scheduler-rpc" in result.stderr


def test_half_a_link_to_a_scheduler_is_told_by_pyspider_s_own_web_ui(run: Run) -> None:
    own = ("webui", "--webui-instance", "pyspider.webui.app.app", "--port", 0)
    result = run("--data-path", "d", *own, env={"SCHEDULER_NAME": "x"})
    assert result.exit_code == 2
    assert "SCHEDULER_PORT_23333_TCP is missing" in result.stderr
