"""Wrong settings are answered at once, by name.

Variables that Kubernetes and Docker set for services do not stop a command without a word.
"""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, ended

Config = Callable[[str], Path]

REDIS = ("--message-queue", "redis://127.0.0.1:1/0")
QUEUE = '"message_queue": "redis://127.0.0.1:1/0"'


def test_all_faults_are_reported_at_once(
    run: Run, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_DRAIN", "soon")
    path = config(
        """{"queue-maxsize": "many", "zookeeper": {"leese": 3}, "webui": [1],
            "scheduler": {"xmlrpc-prot": 1, "delete_time": "late"}}"""
    )
    result = ended(run("-c", path, "scheduler"), 2)
    for name in (
        "queue_maxsize: 'many'",
        "'leese'; did you mean lease?",
        'section "webui": must be an object',
        "'xmlrpc_prot'; did you mean xmlrpc_port?",
        "delete_time: 'late'",
        "PYSPIDER_ZK_DRAIN",
        "--message-queue",
    ):
        assert name in result.stderr


@pytest.mark.parametrize("command", ["scheduler", "all", "up"])
def test_databases_that_cannot_work_are_named(
    run: Run, config: Config, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTDB", "mysql+resultdb://crawl:S3CRET@h/x")
    path = config(
        f"""{{{QUEUE}, "taskdb": "mongodb+taskdb://crawl:S3CRET@h/x",
             "projectdb": "mysql+projectdb://crawl:S3CRET@h/x"}}"""
    )
    result = ended(run("-c", path, command), 2)
    assert "taskdb: MongoDB is not supported: use sqlite, PostgreSQL or MariaDB" in result.stderr
    assert "projectdb, resultdb: give each a database of its own" in result.stderr
    assert "S3CRET" not in result.output


@pytest.mark.parametrize("command", ["scheduler", "all", "up", "one", "bench"])
def test_a_database_that_holds_another_kind_only_is_named(
    run: Run, config: Config, command: str
) -> None:
    path = config(f'{{{QUEUE}, "projectdb": "redis+projectdb://127.0.0.1:1/0"}}')
    result = ended(run("-c", path, command), 2)
    assert "projectdb: Redis is not supported: it has no transactions" in result.stderr


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("data_path", "taken", "data_path: 'taken' cannot be made a folder: File exists"),
        ("data_path", "taken/x", "data_path: 'taken/x' cannot be made a folder: Not a directory"),
        ("logging_config", "taken", "logging_config: 'taken' cannot be used: "),
    ],
)
def test_a_file_of_another_kind_is_named(
    run: Run, config: Config, key: str, value: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("no settings")
    result = ended(run("-c", config(f'{{{QUEUE}, "{key}": "{value}"}}'), "processor"), 2)
    assert told in result.stderr


def test_the_folder_of_data_is_made_closed_and_those_above_it_as_usual(
    run: Run, tmp_path: Path
) -> None:
    ended(run("--data-path", "a/b/c", "send-message", "p", "hello"), 3)
    folder = tmp_path / "a" / "b" / "c"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parent.stat().st_mode == (tmp_path / "a").stat().st_mode


def test_an_unknown_top_level_key_is_only_warned_of(run: Run, config: Config) -> None:
    result = ended(run("-c", config('{"mesage_queue": "x"}'), "scheduler", "--help"))
    assert "'mesage_queue'; did you mean message_queue?" in result.stderr


@pytest.mark.parametrize(
    "section",
    [
        '"processor": {"enable-stdout-capture": false}',
        '"fetcher": {"no_input": true, "poolsize": 5}',
        '"result-worker": {"result_cls": "pyspider.result.ResultWorker"}',
        '"phantomjs": {"args": ["--a"], "port": 25556}',
        '"scheduler": {"threads": 4, "xmlrpc": false}',
        '"webui": {"port": "5000", "need_auth": "1"}, "fetcher": {"xmlrpc_port": 0}',
        '"scheduler": {"xmlrpc_port": 65535}, "debug": "no", "queue_maxsize": "100"',
        '"zookeeper": "zk1:2181,zk2:2181/here"',
        '"status": {"watch": false}',
    ],
)
def test_keys_that_pyspider_takes_are_no_faults(run: Run, config: Config, section: str) -> None:
    result = ended(run("-c", config(f"{{{QUEUE}, {section}}}"), "scheduler", "--help"))
    assert result.stderr == ""


def test_a_syntax_error_is_located(run: Run, config: Config) -> None:
    result = ended(run("-c", config('{"a": 1,\n "b": }'), "all"), 2)
    assert "config.json, line 2, column 7" in result.stderr


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null"])
def test_a_config_that_is_no_object_is_refused(run: Run, config: Config, text: str) -> None:
    assert "must hold an object" in ended(run("-c", config(text), "all"), 2).stderr


def test_a_config_that_is_no_text_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in ended(run("-c", "config.json", "all"), 2).stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"webui": {"port": [5000]}}', 'section "webui", port: [5000] is not a valid integer'),
        ('{"webui": {"need_auth": 5}}', 'section "webui", need_auth: 5 is not a valid boolean'),
        ('{"webui": {"max_rate": {}}}', 'section "webui", max_rate: {} is not a valid float'),
        ('{"debug": ["yes"]}', "config.json, debug: ['yes'] is not a valid boolean"),
        ('{"queue_maxsize": [1]}', "config.json, queue_maxsize: [1] is not a valid integer"),
        ('{"queue_maxsize": 1e999}', "config.json, queue_maxsize: inf is not a valid integer"),
        ('{"config": 5}', "config.json, config: 5 is not a valid filename"),
        ('{"logging_config": "no.conf"}', "logging_config: File 'no.conf' does not exist"),
        ('{"data_path": ["x"]}', "config.json, data_path: must be text"),
        ('{"webui": {"username": true}}', 'section "webui", username: must be text'),
        ('{"webui": {"password": {"a": 1}}}', 'section "webui", password: must be text'),
        ('{"scheduler": {"threads": "x"}}', "threads: 'x' is not a valid integer range"),
        ('{"fetcher": {"timeout": "soon"}}', "timeout: 'soon' is not a valid float range"),
        ('{"fetcher": {"poolsize": 0}}', "poolsize: 0 is not in the range x>=1"),
        ('{"webui": {"fetcher_rpc": "h:1"}}', "fetcher_rpc: must be http://HOST:PORT/"),
        ('{"send_message": {"scheduler_rpc": "x"}}', "scheduler_rpc: must be http://HOST:PORT/"),
        ('{"config": "\\u0000"}', r"config.json, config: '\x00' is not a valid filename"),
        ('{"queue_maxsize": ' + "9" * 5000 + "}", "config.json: holds a whole number of more than"),
        ("[" * 100_000, "config.json: is nested too deeply"),
    ],
)
def test_a_value_that_json_has_and_no_option_is_told_by_name(
    run: Run, config: Config, text: str, told: str
) -> None:
    assert told in ended(run("-c", config(text), "webui"), 2).stderr


@pytest.mark.parametrize(
    ("section", "option", "variable"),
    [
        ("scheduler", "xmlrpc-port", "SCHEDULER_XMLRPC_PORT"),
        ("fetcher", "xmlrpc-port", "FETCHER_XMLRPC_PORT"),
        ("webui", "port", "WEBUI_PORT"),
        ("phantomjs", "port", ""),
    ],
)
def test_a_port_that_is_none_is_refused_wherever_it_comes_from(
    run: Run, config: Config, section: str, option: str, variable: str
) -> None:
    told = "70000 is not in the range 0<=x<=65535"
    path = config(f'{{"{section}": {{"{option}": 70000}}}}')
    results = [run(*REDIS, section, f"--{option}", 70000), run("-c", path, "all")]
    if variable:
        results.append(run(*REDIS, section, env={variable: "70000"}))
    for result in results:
        assert (result.exit_code, told in result.stderr) == (2, True), result.output


def test_a_missing_config_is_named(run: Run) -> None:
    assert "nowhere.json" in ended(run("-c", "nowhere.json", "all"), 2).stderr


@pytest.mark.parametrize(
    "command", ["scheduler", "processor", "fetcher", "result-worker", "webui", "all"]
)
def test_a_cluster_without_a_message_queue_is_refused(run: Run, command: str) -> None:
    result = ended(run(command), 2)
    assert "--message-queue redis://" in result.stderr
    assert result.stderr.startswith("Error: ")


def test_without_a_command_all_is_meant(run: Run) -> None:
    assert "--message-queue redis://" in ended(run(), 2).stderr


def test_the_option_is_checked_like_the_section(run: Run) -> None:
    result = ended(run("--zookeeper", "host:port:more", "status"), 2)
    assert "hosts: 'host:port:more'" in result.stderr


def test_a_message_queue_that_no_cluster_can_use_is_refused(run: Run) -> None:
    result = ended(run("--message-queue", "beanstalk://u:secret@host/", "processor"), 2)
    assert "beanstalk:// is not supported" in result.stderr


def test_a_rabbitmq_of_a_linked_container_is_refused_by_its_name(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQ_NAME", "x")
    monkeypatch.setenv("RABBITMQ_PORT_5672_TCP_ADDR", "host")
    monkeypatch.setenv("RABBITMQ_PORT_5672_TCP_PORT", "5672")
    assert "amqp:// is not supported, redis:// is" in ended(run("processor"), 2).stderr


def test_passwords_are_never_shown(run: Run) -> None:
    result = ended(run("--debug", "--message-queue", "redis://:s@cret@127.0.0.1:1/0", "all"), 3)
    assert "Redis at 127.0.0.1:1" in result.stderr
    assert "Traceback" in result.stderr
    assert "cret" not in result.output


def test_classes_that_do_not_exist_are_all_named(run: Run, config: Config) -> None:
    path = config(
        f"""{{{QUEUE}, "scheduler": {{"scheduler-cls": "nowhere.Scheduler"}},
            "fetcher": {{"fetcher-cls": "json.Fetcher"}}, "processor": {{"processor-cls": "x"}}}}"""
    )
    result = ended(run("-c", path, "all"), 2)
    assert "section \"scheduler\", scheduler_cls: cannot load 'nowhere.Scheduler'" in result.stderr
    assert "section \"fetcher\", fetcher_cls: cannot load 'json.Fetcher'" in result.stderr
    assert "section \"processor\", processor_cls: 'x' must be module.object" in result.stderr


def test_a_message_to_a_project_name_that_is_not_allowed_is_refused(run: Run) -> None:
    result = ended(run("send-message", "two words", "hello"), 1)
    assert "project name 'two words' is not allowed: use letters, digits and _" in result.stderr


NO_BASE = "'json.JSONDecoder' is not derived from pyspider_zk.hooks.ClusterScheduler"


def test_a_scheduler_that_would_not_be_a_member_is_refused(run: Run, config: Config) -> None:
    path = config(f'{{{QUEUE}, "scheduler": {{"scheduler-cls": "json.JSONDecoder"}}}}')
    results = [
        run(*REDIS, "scheduler", "--scheduler-cls", "json.JSONDecoder"),
        run("-c", path, "scheduler"),
        run("-c", path, "all"),
    ]
    for result in results:
        assert (result.exit_code, NO_BASE in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("name", ["Scheduler", "ThreadBaseScheduler", "OneScheduler"])
def test_pyspider_s_own_scheduler_is_refused(run: Run, name: str) -> None:
    path = f"pyspider.scheduler.{name}"
    result = ended(run(*REDIS, "scheduler", "--scheduler-cls", path), 2)
    assert f"{path!r} is not derived from pyspider_zk.hooks.ClusterScheduler" in result.stderr


@pytest.mark.parametrize("where", ["option", "section", "all"])
def test_a_scheduler_that_the_web_ui_would_not_ask_is_refused(
    run: Run, config: Config, where: str
) -> None:
    url = "http://127.0.0.1:23333/"
    path = config(f'{{{QUEUE}, "webui": {{"scheduler_rpc": "{url}"}}}}')
    words = {
        "option": (*REDIS, "webui", "--scheduler-rpc", url),
        "section": ("-c", path, "webui"),
        "all": ("-c", path, "all"),
    }
    result = ended(run(*words[where]), 2)
    assert "scheduler_rpc: the web UI finds every scheduler through ZooKeeper" in result.stderr


# -- services --------------------------------------------------------------------------------

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
    result = ended(run(*REDIS, command, "--help", env={variable: PLACE}))
    assert result.stderr == (
        f"Warning: {variable}={PLACE} is ignored: Kubernetes or Docker set it for a service of that"
        " name; the pod's enableServiceLinks: false keeps it away\n"
    )


def test_what_is_no_port_otherwise_is_told_as_before(run: Run) -> None:
    result = ended(run(*REDIS, "webui", env={"WEBUI_PORT": "http"}), 2)
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
    result = ended(run("status", env={"PYSPIDER_ZK_PORT": "5000"}), 2)
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
    queue = () if name == "RABBITMQ_NAME" else REDIS
    result = ended(run(*queue, command, env={name: "/web/other"}), 2)
    told = f"environment, {name}: stands for a linked container, and {missing} is missing: unset"
    assert told in result.stderr
    assert instead in result.stderr


def test_a_linked_mongodb_is_refused_like_another(run: Run) -> None:
    link = {"ADDR": "10.0.0.1", "PORT": "27017"}
    environ = {f"MONGODB_PORT_27017_TCP_{end}": value for end, value in link.items()}
    result = ended(run(*REDIS, "processor", env={"MONGODB_NAME": "/web/mongodb", **environ}), 2)
    assert "environment, MONGODB_NAME: MongoDB is not supported: use sqlite" in result.stderr


@pytest.mark.parametrize("name", ["MYSQL_NAME", "MONGODB_NAME", "PHANTOMJS_NAME"])
def test_a_link_that_is_not_needed_stops_nothing(run: Run, name: str) -> None:
    databases = [f"--{kind}db=sqlite+{kind}db:///{kind}" for kind in ("task", "project", "result")]
    given = (*databases, "--phantomjs-proxy", "127.0.0.1:1", "--data-path", "d")
    result = ended(run(*REDIS, *given, "send-message", "p", "hello", env={name: "/web/other"}), 3)
    assert "the scheduler does not answer" in result.stderr


def test_half_a_link_to_a_scheduler_is_told_by_name(run: Run) -> None:
    result = run("--data-path", "d", "send-message", "p", "hello", env={"SCHEDULER_NAME": "x"})
    assert result.exit_code == 2
    assert "environment, SCHEDULER_NAME: stands for a linked container" in result.stderr
    assert "SCHEDULER_PORT_23333_TCP is missing: unset it, or give --scheduler-rpc" in result.stderr


def test_half_a_link_to_a_scheduler_is_told_by_pyspider_s_own_web_ui(run: Run) -> None:
    own = ("webui", "--webui-instance", "pyspider.webui.app.app", "--port", 0)
    result = ended(run("--data-path", "d", *own, env={"SCHEDULER_NAME": "x"}), 2)
    assert "SCHEDULER_PORT_23333_TCP is missing" in result.stderr
