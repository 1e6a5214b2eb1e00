"""Which runs of a runs.csv a higher version supersedes, and which definition of a victim a run without a key met."""

from __future__ import annotations

import pandas as pd

from bench.store.records import Status

VERSIONS = {"attack": "attack_version", "victim": "victim_version", "protocol": "protocol_version"}
"""By the column that names a thing, the column of its version."""


def current(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a runs.csv that no higher version supersedes: of the same attack, victim or protocol.

    What was skipped supersedes nothing.
    """
    kept = pd.Series(True, index=runs.index)
    for name, column in VERSIONS.items():
        versions = runs[column].fillna(1)
        if versions.nunique() > 1:
            ended = versions.where(runs["status"] != Status.SKIPPED)
            kept &= ~(versions < ended.groupby(runs[name]).transform("max"))
    return defined(runs if kept.all() else runs[kept])


def defined(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with an empty `victim_key` filled in where other rows tell it.

    A row takes the key of a row with the same victim and weights. A row without weights, whose run never saw any, takes
    the key of its victim if the table has one definition of that name.
    """
    keys = runs["victim_key"].tolist()
    if all(keys) or not any(keys):
        return runs
    of_weights, of_name = dict[tuple[str, str], str](), dict[str, set[str]]()
    rows = list(zip(runs["victim"], runs["victim_sha"], keys, strict=True))
    for victim, weights, key in rows:
        if key:
            of_weights.setdefault((victim, weights), key)
            of_name.setdefault(victim, set()).add(key)
    only = {victim: next(iter(found)) for victim, found in of_name.items() if len(found) == 1}
    told = [
        key or (of_weights.get((victim, weights), "") if weights else only.get(victim, ""))
        for victim, weights, key in rows
    ]
    return runs.assign(victim_key=told)
