"""An audit of an exported run, which knows the file and the paper and nothing of the library."""

import json

import numpy as np
import pyarrow.parquet as parquet


def clip(safe, optimized, b):
    return np.minimum(optimized, safe + b)


def mix(safe, optimized, b):
    return np.logaddexp(safe, optimized + b) - np.logaddexp(0, b)


def recompute_calibrations(path):
    """Each calibrated round's log beta and calibrated risk, computed afresh from the table."""
    table = parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"tether"])
    settings, rounds = about["settings"], {row["number"]: row for row in about["rounds"]}
    listed, alpha = settings.get("listed_actions"), settings["alpha"]
    kernel = {"clip": clip, "mix": mix}[settings["family"]]
    every = table.to_pandas()
    done, draws = every[every["kind"] == "action"], every[every["kind"] == "draw"]

    def normalized(values, log_psi):  # in each context where actions are listed, else by one ψ
        psi = np.logaddexp.reduce(values, axis=1, keepdims=True) if listed else log_psi
        return values - (psi if settings["family"] == "clip" else 0)

    def audited(number, row):
        rows = done[(done["calibration"] == True) & (done["id"] <= row["last_action"])]  # noqa: E712
        rows = rows[rows["observation"] <= row["last_observation"]].dropna(subset="loss")
        column = lambda k: np.stack(rows[f"log_optimized{'_all' * bool(listed)}[{k:g}]"])  # noqa: E731
        safe = np.stack(rows["log_safe_all[0]" if listed else "log_safe"])
        optimized, loss = column(number), np.array(rows["loss"])
        place = [listed.index(each) for each in rows["action"]] if listed else None
        density, drawn = {0: safe}, draws[draws["round"] == number]
        for k in set(rows["served"]) - {0}:
            b = min(float(rounds[k]["log_beta"]), 700)
            density[k] = normalized(kernel(safe, column(k), b), rounds[k]["log_psi"])
        counts = rows["served"].value_counts(normalize=True)
        log_mix = np.logaddexp.reduce([np.log(counts[k]) + density[k] for k in counts.index])
        test = [safe, optimized, log_mix]
        if not listed:
            mixed = "log_mix" if set(density) != {0} else "log_safe"
            test = [np.array(drawn[name]) for name in ("log_safe", "log_optimized", mixed)]

        def risk(b):
            at = normalized(kernel(safe, optimized, b), 0) - log_mix
            last = np.max(normalized(kernel(test[0], test[1], b), 0) - test[2])
            weight = np.exp((at[np.arange(len(at)), place] if listed else at) - last) * factor
            return (weight @ loss + settings["bound"] * wrong) / (weight.sum() + wrong)

        wrong = json.loads(row["calibration"])["constraints"][0]["ratio_error"]
        factor = np.where(loss > alpha, wrong, 1 / wrong)
        ratio = np.concatenate([np.ravel(optimized - safe), np.ravel(test[1] - test[0])])
        grid = np.sort(np.append(ratio, np.linspace(ratio.min() - 9, ratio.max() + 40, 400)))
        failing = next((k for k, b in enumerate(grid) if risk(b) > alpha + 1e-9), None)
        if not failing:  # nowhere, or already at the smallest beta
            return (np.inf, risk(grid[-1])) if failing is None else (-np.inf, risk(grid[0]))
        low, high = grid[failing - 1], grid[failing]
        while high - low > 1e-12 * max(1, abs(low)):
            middle = (low + high) / 2
            low, high = (low, middle) if risk(middle) > alpha else (middle, high)
        return low, risk(low)

    return {k: audited(k, row) for k, row in rounds.items() if row["calibration"] is not None}
