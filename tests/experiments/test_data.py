"""Data files are found in the right order, and never believed without their SHA-256."""

import functools
import hashlib
import http.server
import io
import threading
import zipfile

import pandas as pd
import pytest

from experiments import data

CONTENT = b"theta1,y\n0.5,1.0\n"
NAME = "arm/arm.csv"


@pytest.fixture(autouse=True)
def registry(monkeypatch, tmp_path):
    """One small data set that is not downloaded, an empty cache, and no TETHER_DATA."""
    folder = data.Folder("a robot arm.", {"arm.csv": hashlib.sha256(CONTENT).hexdigest()})
    monkeypatch.setitem(data.FOLDERS, "arm", folder)
    monkeypatch.setattr(data, "cache", lambda: tmp_path / "cache")
    monkeypatch.delenv("TETHER_DATA", raising=False)


def put(folder, content=CONTENT):
    (folder / "arm").mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(content)
    return folder / NAME


def test_the_environment_comes_before_the_cache(monkeypatch, tmp_path):
    cached = put(tmp_path / "cache")
    assert data.path(NAME) == cached
    given = put(tmp_path / "given")
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "given"))
    assert data.path(NAME) == given
    given.unlink()
    assert data.path(NAME) == cached


@pytest.mark.parametrize("where", ["given", "cache"])
def test_another_file_of_that_name_is_refused(monkeypatch, tmp_path, where):
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "given"))
    file = put(tmp_path / where, CONTENT + b"0.6,1.1\n")
    with pytest.raises(data.DataError, match="SHA-256") as caught:
        data.path(NAME)
    assert str(file) in str(caught.value)
    assert not isinstance(caught.value, data.DataMissing)  # a test must not skip for this


def test_a_missing_file_says_where_it_was_sought_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "given"))
    with pytest.raises(data.DataMissing) as caught:
        data.path(NAME)
    text = str(caught.value)
    for part in (NAME, "given", "cache", "a robot arm", "not downloaded automatically"):
        assert part in text
    assert data.FOLDERS["arm"].files["arm.csv"] in text


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(data.DataError, match=r"no data file is named 'arm/leg.csv'.*arm/arm.csv"):
        data.path("arm/leg.csv")


def test_a_converted_file_is_believed_by_its_note_and_only_in_the_cache(monkeypatch, tmp_path):
    other = CONTENT + b"0.7,1.2\n"
    file = put(tmp_path / "cache", other)
    note = file.with_name("arm.csv.sha256")
    note.write_text(hashlib.sha256(other).hexdigest() + "\n")
    assert data.path(NAME) == file
    file.write_bytes(other + b"damaged")
    with pytest.raises(data.DataError, match="damaged one"):
        data.path(NAME)


def test_every_known_file_has_its_own_full_digest():
    digests = [digest for folder in data.FOLDERS.values() for digest in folder.files.values()]
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in digests)
    assert len(set(digests)) == len(digests)


@pytest.fixture
def wheel():
    """A wheel with the layout of the real one: two rows a log."""
    rows = (
        ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,"
        "user_feature_2,user_feature_3,user-item_affinity_0\n"
        "0,2019-11-24 00:00:17.004101+00:00,79,2,0,0.5,ff,aa,bb,cc,0.25\n"
        "1,2019-11-24 00:00:19+00:00,14,1,1,0.25,0{i},aa,bb,dd,0.0\n"
    )
    item = (
        ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3\n0,0,1.5,a{i},b,c\n"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for policy in ("random", "bts"):
            for i, campaign in enumerate(("all", "men", "women")):
                home = f"obp/dataset/obd/{policy}/{campaign}"
                archive.writestr(f"{home}/{campaign}.csv", rows.format(i=i))
                archive.writestr(f"{home}/item_context.csv", item.format(i=i))
    return file.getvalue()


@pytest.fixture
def served(monkeypatch, tmp_path, wheel):
    """The wheel on a server of our own; how often it was asked for."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "obp.whl").write_bytes(wheel)
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *text):
            asked.append(text)

    handler = functools.partial(Handler, directory=str(tmp_path / "www"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(data, "WHEEL", f"http://127.0.0.1:{server.server_port}/obp.whl")
    monkeypatch.setattr(data, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_converted_kept_and_checked_again(served):
    file = data.path("open_bandit_small/obd_bts_men.parquet")
    frame = pd.read_parquet(file)
    assert list(frame.columns[:7]) == (
        ["timestamp", "policy", "campaign", "position", "item_id", "click", "propensity"]
    )
    assert frame["item_id"].tolist() == [79, 14]
    assert frame["user_feature_0"].tolist() == [3, 1]  # places among 00, 01, 02, ff of all logs
    assert frame["affinity_0"].tolist() == [0.25, 0.0]
    items = pd.read_parquet(data.path("open_bandit_small/obd_item_context.parquet"))
    assert items["campaign"].tolist() == ["all", "men", "women"]
    assert items["item_feature_1"].tolist() == [0, 1, 2]
    assert len(served) == 1  # the second file came from the cache
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(data.DataError, match="SHA-256"):
        data.path("open_bandit_small/obd_bts_men.parquet")


def test_a_changed_source_is_refused(served, monkeypatch):
    monkeypatch.setattr(data, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="hash"):
        data.path("open_bandit_small/obd_bts_men.parquet")


def test_no_connection_is_said_plainly(monkeypatch):
    monkeypatch.setattr(data, "WHEEL", "http://127.0.0.1:1/obp.whl")
    with pytest.raises(data.DataMissing, match="its download failed"):
        data.path("open_bandit_small/obd_bts_men.parquet")
