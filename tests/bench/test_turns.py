"""The order in which contenders are measured."""

from tests.bench.turns import in_turn


def test_contenders_take_turns() -> None:
    order = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"at": float(len(order))}

    found = in_turn(3, ["a", "b"], measure)
    assert order == ["a", "b"] * 3
    assert found["a"]["at"] == 3.0
    assert [run["at"] for run in found["b"]["runs"]] == [2.0, 4.0, 6.0]
