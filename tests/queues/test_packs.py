"""What goes between the components."""

from typing import Any

import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.packs import check_named

TASK: dict[str, Any] = {"taskid": "t", "project": "shop", "url": "data:,x"}


@pytest.mark.parametrize("taskid", ["t", 7, -(2**63), 2**63 - 1])
def test_an_id_is_text_or_a_number_that_databases_take(taskid: object) -> None:
    check_named({**TASK, "taskid": taskid})


@pytest.mark.parametrize("taskid", [None, True, 0.5, 2**63, 10**30, ["t"]])
def test_any_other_id_is_refused_by_name(taskid: object) -> None:
    with pytest.raises(BadMessage, match="taskid must be text, not"):
        check_named({**TASK, "taskid": taskid})
