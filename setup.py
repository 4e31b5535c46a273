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
            "local/handlers/*.py",
            "webui/cluster/templates/*.html",
            "webui/cluster/static/*",
            "webui/login/templates/*.html",
            "webui/login/static/*",
        ],
    },
    install_requires=[
        # Only the distribution that ./patches builds runs on a current Python, so name it.
        "pyspider==0.3.10+zk.1",
        "click>=8.1,<9",
        "flask-smorest>=0.46,<1",
        "kazoo>=2.10,<3",
        "marshmallow>=4,<5",
        "msgpack>=1.0,<2",
        "msgspec>=0.20,<1",
        "redis>=5,<9",
        "rich>=13,<16",
        "webargs>=8.6,<9",
    ],
    extras_require={
        "sasl": ["pure-sasl>=0.6.2,<1"],  # only for a ZooKeeper that wants it
        "dev": [
            "axe-playwright-python>=0.1.4,<1",
            "hypothesis>=6.100,<7",
            "import-linter>=2.0,<3",
            "mypy>=1.10,<3",
            "playwright>=1.50,<2",
            "pure-sasl>=0.6.2,<1",
            "pytest>=8,<10",
            "pytest-randomly>=3.15,<6",
            "pytest-timeout>=2.3,<3",
            "pytest-xdist>=3.6,<4",
            "ruff>=0.6,<1",
            "schemathesis>=4,<5",
            "trustme>=1.1,<2",
        ],
    },
    entry_points={"console_scripts": ["pyspider-zk=pyspider_zk.cli.main:main"]},
)
