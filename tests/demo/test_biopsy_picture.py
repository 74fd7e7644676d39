def test_a_picture_is_saved_in_a_new_folder(demo_run):
    assert (demo_run.folder / "demo.png").stat().st_size > 20_000
