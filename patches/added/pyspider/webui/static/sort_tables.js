/*
 * Tables that are sorted by a click on a column's head.
 *
 * Added by pyspider-zk in place of HubSpot's Sortable 0.6.0, which is in no package. It has the
 * part of that library's interface that the dashboard uses: `Sortable.init()`, `Sortable.types`
 * and `Sortable.getColumnType`, which the page replaces. Licence: Apache 2.0, as pyspider's.
 */
(function () {
  "use strict";

  function byNumber(a, b) {
    return (parseFloat(a) || 0) - (parseFloat(b) || 0);
  }

  function byDate(a, b) {
    return (Date.parse(a) || 0) - (Date.parse(b) || 0);
  }

  function byText(a, b) {
    return a.localeCompare(b);
  }

  function value(row, column) {
    var cell = row.cells[column];
    var given = cell.getAttribute("data-value");
    return given === null ? cell.textContent.trim() : given;
  }

  // The first click sorts the type's way, each further one reverses the order.
  function nextDirection(head, type) {
    switch (head.getAttribute("data-sorted-direction")) {
      case "ascending":
        return "descending";
      case "descending":
        return "ascending";
      default:
        return type.first;
    }
  }

  function mark(table, head, direction) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (each) {
      each.removeAttribute("data-sorted");
      each.removeAttribute("data-sorted-direction");
    });
    head.setAttribute("data-sorted", "true");
    head.setAttribute("data-sorted-direction", direction);
  }

  function sort(table, head) {
    var column = head.cellIndex;
    var type = Sortable.getColumnType(table, column);
    var direction = nextDirection(head, type);
    var sign = direction === "ascending" ? 1 : -1;
    var body = table.tBodies[0];
    mark(table, head, direction);
    Array.prototype.slice
      .call(body.rows)
      .sort(function (a, b) {
        return sign * type.compare(value(a, column), value(b, column));
      })
      .forEach(function (row) {
        body.appendChild(row);
      });
  }

  function initTable(table) {
    if (table.getAttribute("data-sortable-initialized") === "true") {
      return;
    }
    table.setAttribute("data-sortable-initialized", "true");
    table.tHead.addEventListener("click", function (event) {
      var head = event.target.closest("th");
      if (head && head.getAttribute("data-sortable") !== "false") {
        sort(table, head);
      }
    });
  }

  var Sortable = (window.Sortable = {
    types: {
      numeric: { first: "descending", compare: byNumber },
      date: { first: "ascending", compare: byDate },
      alpha: { first: "ascending", compare: byText },
    },
    getColumnType: function () {
      return Sortable.types.alpha;
    },
    init: function () {
      Array.prototype.forEach.call(document.querySelectorAll("table[data-sortable]"), initTable);
    },
  });
})();
