"""`ottla pipeline check` without Spark: certain mistakes of syntax, and no false alarm.

The lists are compared with Spark's own parser.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.cli.pipelines.run import check
from ottla.pipelines.checking.sql_syntax import find_mistake
from ottla.pipelines.errors import InvalidFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG = {
    "": "there is no expression",
    "  -- nothing": "there is no expression",
    "(amount > 3": "( is not closed",
    "f(a, (b + 1)": "( is not closed",
    "a in (1, 2": "( is not closed",
    "tags[0": "[ is not closed",
    "tags[0)": "there is no ( for )",
    "amount > 3)": "there is no ( for )",
    ") a (": "there is no ( for )",
    "a = 'x": "the quote ' is not closed",
    "a = 'it's'": "the quote ' is not closed",
    'a = "x': 'the quote " is not closed',
    "`a > 3": "the quote ` is not closed",
    "a = r'x": "the quote ' is not closed",
    "a = 'x\\'": "the quote ' is not closed",
    "a /* b": "the comment that begins with /* has no end",
    "a /* b /* c */ d": "the comment that begins with /* has no end",
    "amount >": "> has nothing to its right",
    "amount =": "= has nothing to its right",
    "amount +": "+ has nothing to its right",
    "amount *": "* has nothing to its right",
    "amount /": "/ has nothing to its right",
    "a ||": "|| has nothing to its right",
    "a <=>": "<=> has nothing to its right",
    "a <>": "<> has nothing to its right",
    "a ::": ":: has nothing to its right",
    "a.": ". has nothing to its right",
    "a,": ", has nothing to its right",
    "f(a,)": ", has nothing to its right",
    "(a +) * 2": "+ has nothing to its right",
    "transform(a, x ->)": "-> has nothing to its right",
    "a = 'b' -- c\n  and b !": "! has nothing to its right",
}
"""Spark refuses them, too."""

POINTLESS = {
    "amount > 3 AND": "AND has nothing to its right",
    "amount >> 3 AND": "AND has nothing to its right",
    "a = 'x' or": "or has nothing to its right",
    "(a > 3) and": "and has nothing to its right",
    "amount like": "like has nothing to its right",
    "`a` in": "in has nothing to its right",
}
"""Spark takes the last word as a name, which nothing uses after a filter."""

WRONG_QUERIES = {
    "select a from input where a > 3 and": "and has nothing to its right",
    "select a from input where a in": "in has nothing to its right",
    "select a from input where (a > 3": "( is not closed",
    "select a from input ,": ", has nothing to its right",
    "select a +": "+ has nothing to its right",
    "select a from input where a = 'x": "the quote ' is not closed",
}

RIGHT = [
    "amount > 3 and not (a = ')' or b = '(')",
    'a = "(" or a = \'"\' or a = "\'"',
    "a = 'it''s' or a = 'it\\'s' or a = \"say \"\"x\"\"\" or a = 'tail\\\\'",
    "a rlike r'\\(' and b = r'\\' || 'x'",
    'a = R"it\'s"',
    "'a' 'b'",
    "'line\nbreak ('",
    "`a (b` > 3 and `odd``name` is not null",
    "a -- it's ( here\n+ 1",
    "a /* it's ( */ + 1 /* and /* nested ' */ too */",
    "-- first\na",
    "a --",
    "case when a > 1 then 'x' when a is null then ')' else \"z\" end",
    "case a when 1 then b end",
    "transform(tags, x -> x || '!')",
    "filter(tags, (x, i) -> x > i and i % 2 = 0)",
    "aggregate(tags, 0, (acc, x) -> acc + x, acc -> acc * 2)",
    "a in (1, 2, (3 + 4)) and b not in ('(', ')')",
    "(a, b) in ((1, 2), (3, 4))",
    "at > current_timestamp() - interval 5 minutes",
    "at > timestamp '2020-01-01 00:00:00' - INTERVAL '1' DAY",
    "amount::double + 1.",
    "amount::decimal(10, 2)",
    "tags::array<int>",
    "a::map<string, array<int>>",
    "cast(a as struct<x: int, y: array<struct<z: string>>>)",
    "cast(a as struct<>)",
    "a::struct<>",
    "a < 3 and b > 2",
    "1.5e3 + .5 + 1.5BD + 10L - -1",
    "x'1F' = X'1f'",
    "count(*)",
    "*",
    "input.*",
    "struct(*)",
    "map('a', 1)['a'] + tags[0]",
    "named_struct('a', 1).a",
    "a:b.c",
    "~a & b | c ^ d",
    "!a",
    "a <=> b or a <> b or a != b or a == b",
    "a >> 1",
    "a div 2",
    "f(x => 1)",
    "sum(a) over (partition by b order by c rows between unbounded preceding and current row)",
    "count(distinct a) filter (where b > 1)",
    "percentile_cont(0.5) within group (order by a)",
    "a like '%x!%' escape '!'",
    "a like any ('x', 'y')",
    "a between 1 and 2",
    "extract(dow from at) = 1",
    "trim(both ')' from a)",
    "a = (select max(b) from c)",
    "exists(select 1 from c where c.a = ')')",
    "date '2020-01-01'",
    "a is not distinct from b",
    "a collate UNICODE = b",
    "`naïve` = 'ü'",
]

RIGHT_NAMES = ["a as like", "amount * 2 as `in`", "a and", "a as not", "a > 3 alias", "a.in"]

RIGHT_QUERIES = [
    "select * from input",
    "select a, * from input;",
    "select distinct *",
    "select a from input -- the end (",
    "select /*+ broadcast(b) */ * from a join b on a.x = b.x",
    "with t as (select a from input) select a from t where a > 3",
    "select a, count(*) as n from input group by a having count(*) > 1 order by n desc limit 3",
    "select a as and from input",
    "select a from input where a = 'x' and not",
    "from input select a",
    "values (1, ')')",
    "select a from input where a in (select b from c where d = '(')",
    "from input |> where a > 3 |> select a",
]


@pytest.mark.parametrize("text", [*WRONG, *POINTLESS])
def test_a_certain_mistake_of_an_expression_is_found(text: str) -> None:
    found = find_mistake(text, has_name=False)
    assert found is not None
    assert found.problem == {**WRONG, **POINTLESS}[text]


@pytest.mark.parametrize("text", WRONG_QUERIES)
def test_a_certain_mistake_of_a_query_is_found(text: str) -> None:
    found = find_mistake(text)
    assert found is not None
    assert found.problem == WRONG_QUERIES[text]


@pytest.mark.parametrize("text", RIGHT)
def test_what_spark_takes_as_an_expression_is_not_doubted(text: str) -> None:
    assert find_mistake(text, has_name=False) is None


@pytest.mark.parametrize("text", [*RIGHT, *RIGHT_NAMES, *POINTLESS, *RIGHT_QUERIES, "${a} >"])
def test_what_may_have_a_name_is_not_doubted(text: str) -> None:
    assert find_mistake(text) is None


def test_sparks_own_parser_says_the_same(spark: SparkSession) -> None:
    session: Any = spark
    parser = session._jsparkSession.sessionState().sqlParser()

    def takes(parse: Any, text: str) -> bool:
        from pyspark.errors import ParseException

        try:
            parse(text)
        except ParseException:
            return False
        return True

    named = [*RIGHT, *RIGHT_NAMES, *POINTLESS]
    assert [text for text in named if not takes(parser.parseExpression, text)] == []
    assert [text for text in RIGHT_QUERIES if not takes(parser.parsePlan, text)] == []
    assert [text for text in WRONG if takes(parser.parseExpression, text)] == []
    assert [text for text in WRONG_QUERIES if takes(parser.parsePlan, text)] == []


YAML = """\
source:
  topic: payments
  format: json
  schema: account string, amount double
steps:
  - python: more.py:unknown
  - filter: amount > 1000
  - with:
      tax: round(amount * 0.19, 2)
  - sql: |
      select account,
             sum(tax) as total
      from input group by account
  - select: [account, total]
sink:
  topic: big-payments
  key: account
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("amount > 1000", "amount >> 3 AND", "7: steps[1].filter: in 'amount >> 3 AND': AND has"),
        ("amount > 1000", '"(amount > 3"', "7: steps[1].filter: in '(amount > 3': ( is not closed"),
        ("amount > 1000", '"-- x"', "7: steps[1].filter: in '-- x': there is no expression"),
        ("0.19, 2)", "0.19, 2", "9: steps[2].with: in 'round(amount * 0.19, 2': ( is not closed"),
        ("sum(tax)", "sum(tax", "12: steps[3].sql: in 'sum(tax as total': ( is not closed"),
        ("[account, total]", "[account, total +]", "14: steps[4].select: in 'total +': + has"),
        ("key: account", "key: account ||", "17: sink.key: in 'account ||': || has nothing"),
    ],
)
def test_a_mistake_is_told_with_its_line_also_where_columns_are_unknown(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    (tmp_path / "more.py").write_text("def unknown(frame): return frame\n")
    file = tmp_path / "payments.yaml"
    file.write_text(YAML)
    assert len(check(file, full=False)) == 1
    file.write_text(YAML.replace(old, new))
    with pytest.raises(InvalidFile) as error:
        check(file, full=False)
    assert str(error.value).startswith(f"{file}:{told}")
