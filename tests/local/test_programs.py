"""Where programs are found, and what is said when they are not."""

from pathlib import Path

import pytest

from pyspider_zk.errors import MissingService
from pyspider_zk.local import programs


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n", encoding="ascii")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    "look",
    [
        programs.java,
        lambda environ: programs.zookeeper_class_path(environ, Path("/nowhere")),
        programs.redis_server,
    ],
)
def test_a_missing_program_is_one_line_for_three_systems(look, tmp_path):
    with pytest.raises(MissingService) as missing:
        look({"PATH": str(tmp_path)})

    message = str(missing.value)
    assert "\n" not in message
    assert all(system in message for system in ("Debian/Ubuntu", "Fedora", "macOS"))


def test_an_environment_without_path_finds_nothing():
    with pytest.raises(MissingService):
        programs.java({})


def test_java_of_java_home_comes_before_java_on_path(tmp_path):
    ours = program(tmp_path / "jdk" / "bin", "java")
    program(tmp_path / "bin", "java")

    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": str(tmp_path / "bin")}

    assert programs.java(environ) == str(ours)


def test_java_on_path_serves_when_java_home_has_none(tmp_path):
    ours = program(tmp_path / "bin", "java")

    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "bin")}

    assert programs.java(environ) == str(ours)


def test_zookeeper_home_is_the_class_path(tmp_path):
    program(tmp_path / "lib", "zookeeper-3.9.3.jar")

    path = programs.zookeeper_class_path({"ZOOKEEPER_HOME": str(tmp_path)}, Path("/nowhere"))

    assert str(tmp_path / "lib/*") in path.split(":")


def test_zookeeper_is_found_beside_its_script_on_path(tmp_path):
    program(tmp_path / "zk" / "lib", "zookeeper-3.9.3.jar")
    script = program(tmp_path / "zk" / "bin", "zkServer.sh")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "zkServer.sh").symlink_to(script)

    path = programs.zookeeper_class_path({"PATH": str(tmp_path / "bin")}, Path("/nowhere"))

    assert str((tmp_path / "zk" / "lib/*").resolve()) in path.split(":")


def test_a_zookeeper_home_without_jars_gives_way_to_the_systems_jars(tmp_path):
    program(tmp_path / "java", "zookeeper.jar")

    environ = {"ZOOKEEPER_HOME": str(tmp_path / "empty")}

    path = programs.zookeeper_class_path(environ, tmp_path / "java")
    assert str(tmp_path / "java" / "zookeeper.jar") in path.split(":")


def test_valkey_is_a_redis(tmp_path):
    valkey = program(tmp_path, "valkey-server")

    assert programs.redis_server({"PATH": str(tmp_path)}) == str(valkey)
