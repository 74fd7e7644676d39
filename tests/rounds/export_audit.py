"""An audit of an exported run, which knows the file and the paper and nothing of the library."""

import json

import numpy as np
import pyarrow.compute as compute
import pyarrow.parquet as parquet


def clip(safe, optimized, b):
    return np.minimum(optimized, safe + b)


def mix(safe, optimized, b):
    return np.logaddexp(safe, optimized + b) - np.logaddexp(0, b)


def read_export(path):
    """Settings, rounds by number, actions as a frame, and columns of scores by round and name."""
    table = parquet.read_table(path)

    def of_kind(kind, column):
        return table.filter(compute.equal(table["kind"], kind))[column].to_pylist()

    settings = {
        row["name"]: json.loads(row["value"])
        for row in map(json.loads, of_kind("setting", "record"))
    }
    rounds = {row["number"]: row for row in map(json.loads, of_kind("round", "record"))}
    for row in rounds.values():
        row["seen"] = {int(lane): last for lane, last in json.loads(row["seen"]).items()}
    pieces = sorted(of_kind("scores", "scores"), key=lambda piece: piece["start"])
    parts = {}
    for piece in pieces:  # each has the values of one policy after the other
        numbers = json.loads(piece["numbers"])
        for number, values in zip(
            numbers, np.split(np.array(piece["values"]), len(numbers)), strict=True
        ):
            parts.setdefault((number, piece["name"]), []).append(values)
    scores = {key: np.concatenate(values) for key, values in parts.items()}
    observed = ["loss", "reward", "observation", "reason"]
    rows = {
        kind: table.filter(compute.equal(table["kind"], kind)).to_pandas()
        for kind in ("action", "observation")
    }
    actions = rows["action"].drop(columns=observed)
    actions = actions.merge(rows["observation"][["id", *observed]], on="id", how="left")
    return settings, rounds, in_order_of_calibrations(actions, rounds), scores


def in_order_of_calibrations(actions, rounds):
    """Actions in the order of the columns of scores: by the first calibration that saw them."""
    actions["lane"], actions["number"] = actions["id"] // 2**40, actions["id"] % 2**40
    actions["saw"] = len(rounds) + 1
    for number, row in sorted(rounds.items(), reverse=True):
        seen = actions["lane"].map(lambda lane: row["seen"].get(lane, [0, 0])[0])  # noqa: B023
        actions.loc[actions["number"] <= seen, "saw"] = number
    return actions.sort_values(["saw", "lane", "number"])


def recompute_calibrations(path):
    """The largest log beta of each calibrated round, and the risk at the one that was served.

    Both are computed afresh from the table.
    """
    settings, rounds, done, scores = read_export(path)
    listed, limit = settings.get("listed_actions"), settings["limits"]["loss"]
    alpha, bound = limit["alpha"], limit["bound"]
    kernel = {"clip": clip, "mix": mix}[settings["family"]]
    calibration_rows = done[done["calibration"] == True].reset_index(drop=True)  # noqa: E712

    def score_table(k, name, where):
        flat = scores[k, name]
        return flat.reshape(-1, len(listed))[where] if listed else flat[where]

    def normalized(values, log_psi):  # in each context where actions are listed, else by one ψ
        psi = np.logaddexp.reduce(values, axis=1, keepdims=True) if listed else log_psi
        return values - (psi if settings["family"] == "clip" else 0)

    def audited(number, row):
        rows = calibration_rows[calibration_rows["saw"] <= number].dropna(subset="loss")
        written = rows["observation"].astype(int)
        last = (written // 2**40).map(lambda lane: row["seen"].get(lane, [0, 0])[1])
        rows = rows[written % 2**40 <= last]
        where, all_or_taken = rows.index, "_all" * bool(listed)
        column = lambda k: score_table(int(k), f"log_optimized{all_or_taken}", where)  # noqa: E731
        safe = score_table(0, "log_safe_all", where) if listed else np.array(rows["log_safe"])
        optimized, loss = column(number), np.array(rows["loss"])
        place = [listed.index(each) for each in rows["action"]] if listed else None
        density = {0: safe}
        for k in set(rows["served"]) - {0}:
            b = min(float(rounds[k]["log_beta"]), 700)
            density[k] = normalized(kernel(safe, column(k), b), rounds[k]["log_psi"])
        counts = rows["served"].value_counts(normalize=True)
        log_mix = np.logaddexp.reduce([np.log(counts[k]) + density[k] for k in counts.index])
        test = [safe, optimized, log_mix]
        if not listed:
            mixed = "log_mix" if set(density) != {0} else "log_safe"
            names = ("log_safe", "log_optimized", mixed)
            test = [scores[number, f"draws_{name}"] for name in names]

        def risk(b):
            at = normalized(kernel(safe, optimized, b), 0) - log_mix
            last = np.max(normalized(kernel(test[0], test[1], b), 0) - test[2])
            weight = np.exp((at[np.arange(len(at)), place] if listed else at) - last) * factor
            return (weight @ loss + bound * wrong) / (weight.sum() + wrong)

        calibration = json.loads(row["calibration"])
        stored = np.clip(float(calibration["log_beta"]), -700, 700)
        wrong = calibration["losses"]["loss"]["ratio_error"]
        factor = np.where(loss > alpha, wrong, 1 / wrong)
        ratio = np.concatenate([np.ravel(optimized - safe), np.ravel(test[1] - test[0])])
        grid = np.unique(np.append(ratio, np.linspace(ratio.min() - 9, ratio.max() + 40, 400)))
        failing = next((k for k, b in enumerate(grid) if risk(b) > alpha + 1e-9), None)
        if not failing:  # nowhere, or already at the smallest beta
            return (np.inf, risk(stored)) if failing is None else (-np.inf, risk(grid[0]))
        low, high = grid[failing - 1], grid[failing]
        while high - low > 1e-12 * max(1, abs(low)):
            middle = (low + high) / 2
            low, high = (low, middle) if risk(middle) > alpha else (middle, high)
        return low, risk(stored)

    return {k: audited(k, row) for k, row in rounds.items() if row["calibration"] is not None}
