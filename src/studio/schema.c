#include "studio/schema.h"

enum {
    SCHEMA_VERSION = 4,
    APPLICATION_ID = 0x6b756e6f, /* "kuno"; databases of the first days have 0 */
    FIRST_TABLES = 11,
};

/* Order of jobs is `seq`, which only grows: clocks may be set back. JSON texts are ours, except requests, which are
 * kept as they came and were checked. */
static const char tables[] =
    "CREATE TABLE IF NOT EXISTS jobs ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " kind TEXT NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('queued','running','completed','failed','cancelled')),"
    " created_ms INTEGER NOT NULL, started_ms INTEGER, finished_ms INTEGER,"
    " request TEXT NOT NULL, plan TEXT, units REAL NOT NULL DEFAULT 0, seeds TEXT NOT NULL,"
    " error TEXT, notes TEXT NOT NULL DEFAULT '[]',"
    " attempts INTEGER NOT NULL DEFAULT 0, retries INTEGER NOT NULL DEFAULT 0, tile_size INTEGER,"
    " cancel_requested INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, seq);"

    /* A picture of a job: one row as soon as it is on the disk, in the gallery or in results/. */
    "CREATE TABLE IF NOT EXISTS results ("
    " job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,"
    " number INTEGER NOT NULL,"
    " item TEXT, file TEXT NOT NULL,"
    " width INTEGER NOT NULL, height INTEGER NOT NULL, media_type TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " seed TEXT, sha256 TEXT NOT NULL,"
    " PRIMARY KEY (job_id, number)) STRICT;"

    "CREATE TABLE IF NOT EXISTS answers ("
    " route TEXT NOT NULL, key TEXT NOT NULL, body_sha256 TEXT NOT NULL, job_id TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, PRIMARY KEY (route, key)) STRICT;"

    "CREATE TABLE IF NOT EXISTS gone_jobs (id TEXT PRIMARY KEY) STRICT;"

    "CREATE TABLE IF NOT EXISTS inputs ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE, facts TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, last_used_ms INTEGER NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS job_inputs ("
    " job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, input_id TEXT NOT NULL,"
    " PRIMARY KEY (job_id, input_id)) STRICT;"
    "CREATE INDEX IF NOT EXISTS jobs_by_input ON job_inputs (input_id);"

    /* `words` is what a search looks at: prompt, title and tags without cases. */
    "CREATE TABLE IF NOT EXISTS gallery ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE, file TEXT NOT NULL, job_id TEXT, favorite INTEGER NOT NULL,"
    " words TEXT NOT NULL, record TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT;"
    "CREATE INDEX IF NOT EXISTS gallery_by_content ON gallery (sha256);"
    "CREATE INDEX IF NOT EXISTS gallery_by_job ON gallery (job_id);"
    "CREATE TABLE IF NOT EXISTS tags ("
    " item TEXT NOT NULL REFERENCES gallery (id) ON DELETE CASCADE, tag TEXT NOT NULL, PRIMARY KEY (item, tag)) STRICT;"
    "CREATE INDEX IF NOT EXISTS items_by_tag ON tags (tag);"

    "CREATE TABLE IF NOT EXISTS settings (id INTEGER PRIMARY KEY CHECK (id = 1), value TEXT NOT NULL,"
    " version INTEGER NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS profiles (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS speed (engine TEXT NOT NULL, device TEXT NOT NULL, memory_mode TEXT NOT NULL,"
    " ratio REAL NOT NULL, samples INTEGER NOT NULL, PRIMARY KEY (engine, device, memory_mode)) STRICT;";

/* What came later, by the version that it came with. `wish`: what clients of other APIs choose although a request
 * cannot say it. `upscalers`: how much each file enlarges, as long as it is the same file. `profiles`: what a complete
 * download has made usable, an array of names; NULL: nobody has looked yet. */
static const char *const additions[SCHEMA_VERSION + 1] = {
    [2] = "ALTER TABLE jobs ADD COLUMN wish TEXT;"
          "CREATE TABLE upscalers (file TEXT PRIMARY KEY, bytes INTEGER NOT NULL, changed_ns INTEGER NOT NULL,"
          " factor INTEGER NOT NULL) STRICT;",
    [3] = "CREATE TABLE downloads ("
          " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
          " id TEXT NOT NULL UNIQUE, artifact TEXT NOT NULL, directory TEXT NOT NULL,"
          " state TEXT NOT NULL CHECK (state IN ('queued','running','paused','completed','failed','cancelled')),"
          " bytes_done INTEGER NOT NULL DEFAULT 0, error TEXT,"
          " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL) STRICT;",
    [4] = "CREATE TABLE sessions (cookie TEXT PRIMARY KEY, csrf TEXT NOT NULL, ends_s INTEGER NOT NULL) STRICT;"
          "ALTER TABLE downloads ADD COLUMN profiles TEXT;",
};

static bool run(kn_store *s, const char *sql, kn_error *err) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK || kn_store_fail(s, err);
}

/* From the tables of one version to those of this one; in one transaction. */
static bool bring_up(kn_store *s, int64_t version, kn_error *err) {
    bool ok = version > 0 || run(s, tables, err);
    for (int64_t v = version + 1; ok && v <= SCHEMA_VERSION; v++)
        ok = !additions[v] || run(s, additions[v], err);
    return ok && run(s, "PRAGMA application_id = 0x6b756e6f", err) && run(s, "PRAGMA user_version = 4", err);
}

static bool ask(kn_store *s, kn_error *err, const char *sql, int64_t *ret) {
    kn_query r = kn_query_open(s, err, sql, "");
    if (kn_query_next(&r))
        *ret = kn_query_int(&r, 0);
    return kn_query_close(&r);
}

static bool ask_what_it_is(kn_store *s, kn_error *err, int64_t *ret_id, int64_t *ret_version) {
    return ask(s, err, "PRAGMA application_id", ret_id) && ask(s, err, "PRAGMA user_version", ret_version);
}

static bool fail_as_foreign(kn_error *err) {
    return kn_fail(err, KN_E_USAGE,
                   "'studio.db' is another program's database, not the studio's; move it elsewhere, or take another "
                   "state_dir");
}

bool kn_schema_is_ours(kn_store *s, kn_error *err) {
    static const char first[] =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('jobs', 'results',"
        " 'answers', 'gone_jobs', 'inputs', 'job_inputs', 'gallery', 'tags', 'settings',"
        " 'profiles', 'speed')";
    int64_t id = 0, version = 0, things = 0, known = 0;
    if (!ask_what_it_is(s, err, &id, &version))
        return false;
    if (id && id != APPLICATION_ID)
        return fail_as_foreign(err);
    if (!ask(s, err, "SELECT count(*) FROM sqlite_schema", &things) || !ask(s, err, first, &known))
        return false;
    bool is_new = !id && !version && !things, is_complete = version > 0 && known == FIRST_TABLES;
    if (!id && !is_new && !is_complete)
        return fail_as_foreign(err);
    if (version > SCHEMA_VERSION)
        return kn_fail(err, KN_E_UNSUPPORTED, "the database is of a later version of kuno (%lld, known is %d)",
                       (long long)version, SCHEMA_VERSION);
    return is_new || is_complete || kn_fail(err, KN_E_FORMAT, "the database lacks tables");
}

bool kn_schema_prepare(kn_store *s, kn_error *err) {
    int64_t id = 0, version = 0;
    if (!ask_what_it_is(s, err, &id, &version))
        return false;
    return (version == SCHEMA_VERSION && id == APPLICATION_ID) ||
           (kn_store_begin(s, err) && kn_store_end(s, bring_up(s, version, err), err));
}
