"""Settings: where they come from, and every fault at once."""

import pytest

from pyspider_zk.config import SECRETS, Settings, settings_from
from pyspider_zk.errors import ConfigError
from pyspider_zk.zookeeper.session import Times


def faults(*sources: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refusal:
        settings_from(*sources)  # type: ignore[arg-type]
    return refusal.value.faults


def test_without_any_source_the_defaults_hold():
    assert settings_from() == Settings()
    assert settings_from({}, {}, None) == Settings()


def test_a_section_may_be_just_the_addresses():
    assert settings_from("zk1:2181,zk2:2181").hosts == "zk1:2181,zk2:2181"


def test_values_may_be_numbers_or_text():
    settings = settings_from({"slots": 64, "lease": 8}, {"PYSPIDER_ZK_RENEWAL": "0.5"})

    assert (settings.slots, settings.lease, settings.renewal) == (64, 8.0, 0.5)


def test_the_environment_wins_over_the_section_and_the_option_over_both():
    section = {"hosts": "a:1", "slots": 8, "lease": 9}
    environ = {"PYSPIDER_ZK_HOSTS": "b:1", "PYSPIDER_ZK_SLOTS": "16", "HOME": "/root"}

    settings = settings_from(section, environ, "c:1")

    assert (settings.hosts, settings.slots, settings.lease) == ("c:1", 16, 9.0)


@pytest.mark.parametrize(
    ("sources", "hosts", "root"),
    [
        (("zk:2181/crawl/one",), "zk:2181", "/crawl/one"),
        (("zk:2181/a", None, "zk:2182"), "zk:2182", "/a"),
        (("zk:2181/a", {"PYSPIDER_ZK_ROOT": "/b"}), "zk:2181", "/b"),
        (({"root": "/a"}, None, "zk:2182/c"), "zk:2182", "/c"),
        (({"hosts": "[::1]:2181,zk.example.org"},), "[::1]:2181,zk.example.org", "/pyspider-zk"),
    ],
)
def test_a_path_after_the_addresses_is_the_root(sources, hosts, root):
    settings = settings_from(*sources)

    assert (settings.hosts, settings.root) == (hosts, root)


def test_two_roots_in_one_source_are_a_fault():
    assert "given twice" in faults({"hosts": "zk:2181/a", "root": "/b"})[0]


def test_all_faults_are_told_at_once_and_by_name():
    found = faults(
        {"slots": "many", "lease": -1, "hots": "zk", "hosts": "a b", "root": "nowhere"},
        {"PYSPIDER_ZK_SESSION": "0", "PYSPIDER_ZK_RENEWEL": "1"},
    )

    for name in ("slots", "lease", "hots", "hosts", "root", "session", "RENEWEL"):
        assert sum(name in fault for fault in found) >= 1, name
    assert len(found) == 7


def test_a_key_that_does_not_exist_is_told_with_the_likely_one():
    assert faults({"hots": "zk"}) == (
        "section \"zookeeper\": there is no setting 'hots'; did you mean hosts?",
    )
    assert "PYSPIDER_ZK_RENEWEL" in faults(None, {"PYSPIDER_ZK_RENEWEL": "1"})[0]
    assert (
        "known are advertise, alert_webhook, allow_quit, await_members" in faults({"xyzzy": 1})[0]
    )


def test_the_hang_limit_is_at_least_a_lease_unless_told_otherwise():
    assert settings_from({}).hang == 30.0
    assert settings_from({"lease": 60}).hang == 60.0
    assert settings_from({"lease": 60, "hang": 90}).hang == 90.0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hosts", ""),
        ("hosts", 5),
        ("hosts", "zk:0"),
        ("hosts", "zk:99999"),
        ("hosts", "[1:2]:2181"),
        ("hosts", "zk1:2181,,zk2:2181"),
        ("hosts", None),
        ("root", "/"),
        ("root", "/a/"),
        ("root", "/" + "a" * 255),
        ("root", "/a/../b"),
        ("root", "a"),
        ("root", "/a\x01"),
        ("root", "/a\x9f"),
        ("root", "/a\udcff"),
        ("root", "/a\ue000"),
        ("root", "/a\U0001f600"),
        ("name", "a\udcff"),
        ("advertise", "a\udcff"),
        ("username", "a\udcff"),
        ("viewer_username", "a\udcff"),
        ("password", "a\udcff"),
        ("viewer_password", "a\udcff"),
        ("readers", "sasl:a\udcff"),
        ("hang", 86401),
        ("hang", "9" * 400),
        ("session", 86401),
        ("session", "9" * 400),
        ("drain", 86401),
        ("drain", "9" * 400),
        ("page_limit", 0),
        ("page_limit", 48 * 2**20 + 1),
        ("page_memory", 8 * 2**20 - 1),
        ("forbidden_networks", "10.0.0.1/8"),
        ("forbidden_networks", ["intranet"]),
        ("slots", 0),
        ("slots", 16385),
        ("slots", 1.5),
        ("slots", True),
        ("renewal", 0),
        ("renewal", 0.09),
        ("renewal", "soon"),
        ("lease", 0.49),
        ("lease", 601),
        ("hang", 3.9),
        ("hang", "long"),
        ("budget", 2),
        ("lease", "nan"),
        ("session", 0),
        ("session", 0.001),
        ("await_members", 0),
        ("await_members", 16385),
        ("await_members", "three"),
        ("name", 7),
        ("trusted_origins", 7),
        ("login_to_change", "perhaps"),
        ("trusted_origins", "crawl.example.org"),
        ("trusted_proxies", 7),
        ("trusted_proxies", "proxy.example.org"),
        ("trusted_proxies", ["10.0.0.1/8"]),
        ("trusted_proxies", ["0.0.0.0/0"]),
        ("trusted_proxies", ["10.0.0.1", "::/0"]),
        ("xmlrpc_names", 7),
        ("xmlrpc_names", "crawl.example.org:23333"),
        ("xmlrpc_names", ["http://crawl.example.org"]),
        ("allow_quit", "perhaps"),
        ("insecure", 7),
        ("secret", 7),
        ("trusted_origins", ["https://a.example.org/path"]),
    ],
)
def test_a_value_that_cannot_work_is_told_by_name(setting, value):
    (fault,) = faults({setting: value})

    assert setting in fault


def test_a_time_may_be_a_day():
    day = {"hang": 86400, "session": 86400, "drain": 86400}
    settings = settings_from(day)

    assert {name: getattr(settings, name) for name in day} == day


def test_a_file_may_have_any_name():
    settings = settings_from(environ={"PYSPIDER_ZK_USERS": "/etc/caf\udce9"})

    assert settings.users == "/etc/caf\udce9"


@pytest.mark.parametrize(
    ("setting", "values", "text"),
    [
        ("trusted_origins", ("https://a.example.org", "http://b:8080"), None),
        ("trusted_proxies", ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32"), None),
        (
            "xmlrpc_names",
            ("crawl.example.org", "zk-1", "fe80::1"),
            "Crawl.example.org, zk-1,fe80::1",
        ),
    ],
)
def test_several_may_be_a_list_or_a_text_with_commas(setting, values, text):
    environ = {f"PYSPIDER_ZK_{setting.upper()}": text or ", ".join(values)}
    for settings in (settings_from({setting: list(values)}), settings_from(None, environ)):
        assert getattr(settings, setting) == values
    for settings in (settings_from({setting: ""}), settings_from()):
        assert getattr(settings, setting) == ()


@pytest.mark.parametrize(("given", "read"), [(True, True), ("yes", True), ("0", False)])
def test_a_switch_may_be_a_word(given, read):
    assert settings_from({"login_to_change": given}).login_to_change is read


def test_one_fault_does_not_cause_another():
    assert len(faults({"renewal": "soon", "lease": 0.5})) == 1


def test_a_lease_has_three_tries_by_default():
    settings = Settings()
    assert 3 * settings.renewal < settings.lease - settings.budget


@pytest.mark.parametrize(("lease", "renewal"), [(600, 1.25), (4, 1.25), (3, 0.9375)])
def test_who_only_chooses_a_lease_has_three_tries_as_well(lease, renewal):
    settings = settings_from({"lease": lease, "hang": 600})

    assert settings.renewal == renewal
    assert 3 * settings.renewal < settings.lease - settings.budget


def test_renewals_leave_nothing_to_ask_for_by_default():
    """A session that sends more seldom asks just to get an answer."""
    settings = Settings()
    assert settings.renewal < Times(settings.session).beat


@pytest.mark.parametrize("section", [7, ["zk:2181"]])
def test_a_section_of_another_kind_is_refused(section):
    assert "must be an object" in faults(section)[0]


def test_the_largest_and_the_smallest_cluster_are_allowed():
    assert settings_from({"slots": 16384}).slots == 16384
    assert settings_from({"slots": 1}).slots == 1


def test_the_message_holds_all_faults():
    with pytest.raises(ConfigError, match=r"slots.*\n.*session"):
        settings_from({"slots": 0, "session": 0})


def test_a_viewer_has_a_name_and_a_password_that_stands_nowhere_else():
    given = {"viewer_username": "eve", "viewer_password": " s3cret:word "}
    settings = settings_from(given)
    assert (settings.viewer_username, settings.viewer_password) == ("eve", " s3cret:word ")
    assert "s3cret" not in repr(settings)
    assert "viewer_password" in faults({"viewer_username": "eve"})[0]
    assert "viewer_username" in faults({"viewer_password": "s3cret"})[0]
    assert "colon" in faults({**given, "viewer_username": "e:ve"})[0]
    assert "1234" not in "".join(faults({**given, "viewer_password": 1234}))


def test_a_secret_may_stand_in_a_file(tmp_path):
    file = tmp_path / "password"
    file.write_text("s3cret: with spaces \n", encoding="utf-8")
    file.chmod(0o600)

    from_section = settings_from({"username": "crawl", "password_file": str(file)})
    from_environ = settings_from(
        {"password": "other"},
        {"PYSPIDER_ZK_USERNAME": "crawl", "PYSPIDER_ZK_PASSWORD_FILE": str(file)},
    )

    assert {from_section.password, from_environ.password} == {"s3cret: with spaces "}
    assert "s3cret" not in repr(from_section)


def test_a_file_that_holds_no_secret_is_named_and_not_quoted(tmp_path):
    (tmp_path / "key").write_text("-----BEGIN\nHIDDEN\n-----END\n", encoding="utf-8")
    (tmp_path / "empty").touch()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe HIDDEN")
    (tmp_path / "large").write_text("HIDDEN" * 20_000, encoding="utf-8")

    for file in tmp_path.iterdir():
        file.chmod(0o600)
    for name in ("key", "empty", "bytes", "large", "missing", "."):
        environ = {"PYSPIDER_ZK_PASSWORD_FILE": str(tmp_path / name), "PYSPIDER_ZK_USERNAME": "u"}
        (found,) = (each for each in faults(None, environ) if "PASSWORD_FILE" in each)
        assert str(tmp_path / name) in found
        assert "HIDDEN" not in found


def test_a_secret_and_its_file_are_one_too_many(tmp_path):
    (tmp_path / "password").write_text("x", encoding="utf-8")
    section = {"username": "u", "password": "x", "password_file": str(tmp_path / "password")}

    assert "not both" in faults(section)[0]


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"username": "crawl"}, "username and password: give both"),
        ({"password": "x"}, "username and password: give both"),
        ({"username": "a:b", "password": "x"}, "username: must have none of"),
        ({"scheme": "kerberos"}, "scheme: 'kerberos' must be digest or sasl"),
        ({"readers": ["sasl:ann"]}, "readers: need username"),
        ({"readers": ["world:anyone"], "username": "u", "password": "x"}, "'world:anyone' must be"),
        ({"tls_ca": "ca.pem"}, "need tls"),
        ({"tls": True, "tls_key": "key.pem"}, "tls_certificate and tls_key: give both"),
        ({"tls": "perhaps"}, "must be true or false"),
        ({"xmlrpc_tls": "perhaps"}, "must be true or false"),
        ({"xmlrpc_tls_key": "key.pem"}, "xmlrpc_tls_certificate and xmlrpc_tls_key: give both"),
    ],
)
def test_a_login_that_cannot_work_says_why(section, told):
    assert told in "\n".join(faults(section))


@pytest.mark.parametrize("metrics", ["127.0.0.1:9464", "0.0.0.0:0", "[::1]:9464", "scheduler-1:1"])
def test_metrics_may_be_served_on_any_host_and_port(metrics):
    assert settings_from({"metrics": metrics}).metrics == metrics


@pytest.mark.parametrize(
    "metrics",
    ["9", ":9464", "localhost", "h:65536", "[1:2]:1", "h:1/me", "http://h:1", "u@h:1", "::1:9"],
)
def test_where_metrics_cannot_be_served_is_told(metrics):
    (fault,) = faults({"metrics": metrics})
    assert fault.startswith("metrics: ")
    assert "127.0.0.1:9464" in fault


def test_a_token_of_metrics_may_stand_in_a_file_and_is_not_shown(tmp_path):
    file = tmp_path / "token"
    file.write_text("a token of the tests\n")
    file.chmod(0o600)
    settings = settings_from({"metrics": "h:1", "metrics_token_file": str(file)})
    assert settings.metrics_token == "a token of the tests"  # noqa: S105
    assert "a token" not in repr(settings)
    (fault,) = faults({"metrics": "h:1", "metrics_token": "too short"})
    assert "16" in fault
    assert "too short" not in fault


@pytest.mark.parametrize(
    "token", ["a token with an ä in it", "a token with a snowman \u2603", " a token of the tests "]
)
def test_a_token_of_metrics_that_no_header_carries_is_refused(token):
    (fault,) = faults({"metrics": "h:1", "metrics_token": token})
    assert "metrics_token: must be ASCII" in fault
    assert token.strip() not in fault


def test_whatever_is_a_secret_may_stand_in_a_file(tmp_path):
    for name in SECRETS:
        with pytest.raises(ConfigError, match="cannot be read"):
            settings_from({f"{name}_file": str(tmp_path / "none")})


def test_a_token_without_metrics_is_a_fault():
    (fault,) = faults({"metrics_token": "a token of the tests"})
    assert "opens nothing" in fault


@pytest.mark.parametrize(
    "url",
    ["https://alerts.example.org/hook?key=s3cr3t", "https://h:8443", "http://127.0.0.1:8000/hook"],
)
def test_alerts_may_be_posted_to_any_url_that_others_cannot_read(url):
    settings = settings_from({"alert_webhook": url})
    assert settings.alert_webhook == url
    assert url not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "alerts.example.org/s3cr3t",
        "ftp://h/s3cr3t",
        "https://user:s3cr3t@h/",
        "https://h/s3cr3t here",
        "https://h/s3cr3t\r\nX: y",
        "http://alerts.example.org/s3cr3t",
        "https://[1:2]/s3cr3t",
        "https://[::1/s3cr3t",
        "https://h:65536/s3cr3t",
    ],
)
def test_a_url_that_alerts_cannot_be_posted_to_is_not_repeated(url):
    (fault,) = faults({"alert_webhook": url})
    assert fault.partition(":")[0] in ("alert_webhook", 'section "zookeeper", alert_webhook')
    assert "https" in fault
    assert "s3cr3t" not in fault


def test_alerts_may_be_readable_on_the_way_if_that_is_wanted():
    section = {"alert_webhook": "http://alerts.example.org/", "insecure": True}
    assert settings_from(section).alert_webhook.startswith("http:")
