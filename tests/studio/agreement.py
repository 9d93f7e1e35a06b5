"""What must be so when nothing runs: every job has ended, and the database, the folders and the API say the same."""

import contextlib
import hashlib
import json
import os
import sqlite3

from studio.rig import ENDED


def pages(rig, path):
    items, cursor = [], ""
    while cursor is not None:
        page = rig.get(f"{path}?limit=200" + (f"&cursor={cursor}" if cursor else ""))
        items += page["items"]
        cursor = page["next_cursor"]
    return items


def rows(rig, sql):
    path = os.path.join(rig.folder, "studio", "studio.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


TRASH = "gallery/.trash"


def names(rig, room):
    return sorted(name for name in os.listdir(os.path.join(rig.folder, "studio", room)) if name != ".trash")


def content(rig, room, name):
    with open(os.path.join(rig.folder, "studio", room, name), "rb") as file:
        return file.read()


def check_gallery(test, rig):
    """Each picture has its row and its two files, which are whole; nothing else lies there."""
    items = pages(rig, "/gallery")
    records = [json.loads(content(rig, "gallery", name)) for name in names(rig, "gallery") if name.endswith(".json")]
    test.assertEqual(sorted(one["id"] for one in items), sorted(one["id"] for one in records))
    test.assertEqual(names(rig, "gallery"), sorted([one["file"] for one in records]
                                                   + [one["id"] + ".json" for one in records]))
    for one in records:
        picture = content(rig, "gallery", one["file"])
        test.assertEqual((hashlib.sha256(picture).hexdigest(), len(picture)), (one["sha256"], one["bytes"]))
    return {one["id"] for one in items}


def check_results(test, rig, items):
    """Rows of results are the gallery's pictures and the files in results/, no more and no less."""
    test.assertEqual({row[0] for row in rows(rig, "SELECT item FROM results WHERE item IS NOT NULL")}, items)
    files = rows(rig, "SELECT file FROM results WHERE item IS NULL AND file <> ''")
    test.assertEqual(names(rig, "results"), sorted(row[0] for row in files))


def check_inputs(test, rig):
    """Each has its row and its two files."""
    ids = [row[0] for row in rows(rig, "SELECT id FROM inputs")]
    test.assertEqual(names(rig, "inputs"), sorted(ids + [id + ".json" for id in ids]))


def check_jobs(test, rig):
    """One end each, and as many pictures as the end says."""
    jobs = pages(rig, "/jobs")
    for job in jobs:
        test.assertIn(job["state"], ENDED, job)
        made, wanted = [one["index"] for one in job["results"]], list(range(job["request"].get("batch", 1)))
        test.assertEqual(made, wanted if job["state"] == "completed" else wanted[:len(made)], job)
        test.assertEqual(job["error"] is None, job["state"] != "failed", job)
    return jobs


def check(test, rig):
    """Returns the jobs."""
    jobs = check_jobs(test, rig)
    items = check_gallery(test, rig)
    check_results(test, rig, items)
    test.assertLessEqual({name[:30] for name in names(rig, "thumbnails")}, items)
    check_inputs(test, rig)
    return jobs
