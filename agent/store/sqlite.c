// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One file, written ahead (WAL) and synchronised at each commit, so that what was committed is there after a crash or a power
 * cut. application_id says whose file it is and user_version which schema; both are read before anything is written, so that a
 * file of another program or of a newer version is left as it was.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store/driver.h"
#include "store/witness.h"

#define APPLICATION_ID 0x4c476174 /* "LGat" */
#define SCHEMA_VERSION 1
#define BUSY_MS 2000 /* another process (a backup, a person) may hold the file for a moment */

enum statement { GET, PUT, DELETE, NEXT_REVISION, BEGIN, COMMIT, ROLLBACK, _STATEMENT_N };

static const char *const statements[_STATEMENT_N] = {
	[GET] = "SELECT value, revision FROM entry WHERE key = ?1",
	[PUT] = "INSERT INTO entry (key, value, revision) VALUES (?1, ?2, ?3) "
		"ON CONFLICT (key) DO UPDATE SET value = ?2, revision = ?3",
	[DELETE] = "DELETE FROM entry WHERE key = ?1",
	[NEXT_REVISION] = "UPDATE counter SET revision = revision + 1 RETURNING revision",
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
};

struct sqlite {
	struct lg_store_own own; /* first */
	sqlite3 *db;
	sqlite3_stmt *stmt[_STATEMENT_N];
	struct lg_witness witness;
};

static int errno_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE: return 0;
	case SQLITE_BUSY:
	case SQLITE_LOCKED: return -EBUSY;
	case SQLITE_NOMEM: return -ENOMEM;
	case SQLITE_FULL: return -ENOSPC;
	case SQLITE_READONLY: return -EROFS;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB: return -EBADMSG;
	default: return -EIO;
	}
}

static void sqlite_state_free(struct sqlite *s)
{
	for (size_t i = 0; i < _STATEMENT_N; i++)
		sqlite3_finalize(s->stmt[i]);
	sqlite3_close(s->db);
	lg_witness_close(&s->witness);
	free(s);
}
LG_CLEANUP(struct sqlite, sqlite_state_free)

static void sqlite_close(void *state)
{
	sqlite_state_free(state);
}

/* ---- opening ---- */

/* What SQLite says about a file it could not use, in one line. */
static int open_complain(struct sqlite *s, int rc, struct lg_complaint *c)
{
	int r = errno_of(rc), err = sqlite3_system_errno(s->db);

	if (r == -EBADMSG)
		lg_complain(c, "%s: restore it from a copy, or move it away to begin with an empty store",
			    (rc & 0xff) == SQLITE_NOTADB ? "this is no store: not an SQLite file"
							 : "the store is damaged");
	else if (r == -EBUSY)
		lg_complain(c, "another process holds the store locked: is a second server running on it?");
	else if (r == -EROFS)
		lg_complain(c, "the store cannot be written: check the permissions of the file and its folder");
	else if (err)
		lg_complain(c, "cannot open the store: %s", strerror(err));
	else
		lg_complain(c, "cannot open the store: %s", sqlite3_errmsg(s->db));
	return (rc & 0xff) == SQLITE_CANTOPEN && err ? -err : r;
}

/* Runs one statement and takes the number or text in its first column, if it has a row. */
static int query(struct sqlite *s, const char *sql, int64_t *ret_num, char *ret_text, size_t text_len,
		 struct lg_complaint *c)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW && ret_num)
		*ret_num = sqlite3_column_int64(stmt, 0);
	if (rc == SQLITE_ROW && ret_text)
		snprintf(ret_text, text_len, "%s", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	return errno_of(rc) < 0 ? open_complain(s, rc, c) : 0;
}

/* Whose file is it? 1: nobody's yet, 0: ours of this schema. */
static int owner_check(struct sqlite *s, struct lg_complaint *c)
{
	int64_t id = 0, version = 0, n_tables = 0;
	int r;

	r = query(s, "PRAGMA application_id", &id, NULL, 0, c);
	if (r == 0)
		r = query(s, "PRAGMA user_version", &version, NULL, 0, c);
	if (r == 0)
		r = query(s, "SELECT count(*) FROM sqlite_schema", &n_tables, NULL, 0, c);
	if (r < 0)
		return r;
	if (id == 0 && version == 0 && n_tables == 0)
		return 1;
	if (id != APPLICATION_ID) {
		lg_complain(c, "this is an SQLite file of another program, not a store: name another file");
		return -EEXIST;
	}
	if (version != SCHEMA_VERSION) {
		lg_complain(c,
			    "the store has schema %lld, written by a newer version, and this one knows %d: run the "
			    "newer version",
			    (long long)version, SCHEMA_VERSION);
		return -EPROTO;
	}
	return 0;
}

/* One transaction, so that a crash leaves an empty file or a whole store. */
static int schema_create(struct sqlite *s, struct lg_complaint *c)
{
	char sql[512];
	int rc;

	snprintf(sql, sizeof(sql),
		 "BEGIN IMMEDIATE;"
		 "CREATE TABLE entry (key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT "
		 "ROWID;"
		 "CREATE TABLE counter (revision INTEGER NOT NULL);"
		 "INSERT INTO counter (revision) VALUES (0);"
		 "PRAGMA application_id = %d;"
		 "PRAGMA user_version = %d;"
		 "COMMIT",
		 APPLICATION_ID, SCHEMA_VERSION);
	rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : open_complain(s, rc, c);
}

static int journal_set(struct sqlite *s, struct lg_complaint *c)
{
	char mode[16] = "";
	int r;

	r = query(s, "PRAGMA journal_mode = WAL", NULL, mode, sizeof(mode), c);
	if (r < 0)
		return r;
	if (strcmp(mode, "wal") != 0) {
		lg_complain(c, "the file system cannot keep a write-ahead log (journal mode is %s): use a local one",
			    mode);
		return -ENOTSUP;
	}
	return query(s, "PRAGMA synchronous = FULL", NULL, NULL, 0, c);
}

static int integrity_check(struct sqlite *s, struct lg_complaint *c)
{
	char found[200] = "";
	int r;

	r = query(s, "PRAGMA quick_check(1)", NULL, found, sizeof(found), c);
	if (r < 0 || strcmp(found, "ok") == 0)
		return r;
	for (char *p = found; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	lg_complain(c,
		    "the store is damaged (%s): restore it from a copy, or move it away to begin with an empty store",
		    found);
	return -EBADMSG;
}

static int statements_prepare(struct sqlite *s, struct lg_complaint *c)
{
	int rc;

	for (size_t i = 0; i < _STATEMENT_N; i++) {
		rc = sqlite3_prepare_v3(s->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i], NULL);
		if (rc != SQLITE_OK)
			return open_complain(s, rc, c);
	}
	return 0;
}

static int file_open(struct sqlite *s, const char *path, struct lg_complaint *c)
{
	struct stat st;
	int rc;

	/* To SQLite "" is a file without a name and ":memory:" none at all. */
	if (path[0] == '\0' || path[0] == ':')
		return lg_complain(c, "\"%.64s\" names no file for the store", path);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		lg_complain(c, S_ISDIR(st.st_mode) ? "this is a folder: the store is a file"
						   : "the store must be a regular file");
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	}
	rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return open_complain(s, rc, c);
	if (sqlite3_db_readonly(s->db, "main") == 1)
		return open_complain(s, SQLITE_READONLY, c);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	return 0;
}

/* How far is it, and how far was it? No revision of a newer copy is used again. */
static int witness_open(struct sqlite *s, const char *path, struct lg_complaint *c)
{
	int64_t revision = 0;
	char sql[80];
	int r;

	r = query(s, "SELECT revision FROM counter", &revision, NULL, 0, c);
	if (r == 0 && path)
		r = lg_witness_open(&s->witness, path, (uint64_t)revision, c);
	if (r < 0 || s->witness.revision <= (uint64_t)revision || s->witness.revision > INT64_MAX)
		return r;
	snprintf(sql, sizeof(sql), "UPDATE counter SET revision = %lld", (long long)s->witness.revision);
	return query(s, sql, NULL, NULL, 0, c);
}

static int sqlite_open(struct lg_loop *loop, const struct lg_store_options *o, const struct lg_store_news *news, void **ret_state,
		       struct lg_complaint *c)
{
	_cleanup_(sqlite_state_free) struct sqlite *s = calloc(1, sizeof(*s));
	const char *path = o->path;
	int r, is_new = 0;

	(void)loop;
	(void)news;
	snprintf(c->file, sizeof(c->file), "%s", path);
	if (!s) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	s->witness.fd = -1;
	r = file_open(s, path, c);
	if (r == 0)
		r = is_new = owner_check(s, c);
	if (r >= 0)
		r = integrity_check(s, c);
	if (r == 0)
		r = journal_set(s, c);
	if (r == 0 && is_new)
		r = schema_create(s, c);
	if (r == 0)
		r = statements_prepare(s, c);
	if (r == 0)
		r = witness_open(s, o->witness, c);
	if (r < 0)
		return r;
	*ret_state = TAKE(s);
	return 0;
}

/* ---- reading and writing ---- */

/* One step of a prepared statement that needs no result but its success. */
static int run(struct sqlite *s, enum statement which)
{
	int rc = sqlite3_step(s->stmt[which]);

	sqlite3_reset(s->stmt[which]);
	return errno_of(rc);
}

static void key_bind(sqlite3_stmt *stmt, const char *key)
{
	sqlite3_bind_blob(stmt, 1, key, (int)strlen(key), SQLITE_STATIC);
}

static int sqlite_get(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	struct sqlite *s = state;
	sqlite3_stmt *stmt = s->stmt[GET];
	size_t len;
	int rc, r;

	key_bind(stmt, key);
	rc = sqlite3_step(stmt);
	r = rc == SQLITE_DONE ? 1 : errno_of(rc);
	if (rc == SQLITE_ROW) {
		len = (size_t)sqlite3_column_bytes(stmt, 0);
		if (len > size) {
			r = -ENOSPC;
		} else {
			if (len)
				memcpy(buf, sqlite3_column_blob(stmt, 0), len);
			*ret_len = len;
			*ret_revision = (uint64_t)sqlite3_column_int64(stmt, 1);
		}
	}
	sqlite3_reset(stmt);
	return r;
}

/* 0 if the key has the revision asked for, 1 if not. */
static int revision_check(struct sqlite *s, const struct lg_store_write *write)
{
	sqlite3_stmt *stmt = s->stmt[GET];
	uint64_t revision = 0;
	int rc;

	if (write->if_revision == LG_STORE_REVISION_ANY)
		return 0;
	key_bind(stmt, write->key);
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		revision = (uint64_t)sqlite3_column_int64(stmt, 1);
	sqlite3_reset(stmt);
	return errno_of(rc) < 0 ? errno_of(rc) : revision != write->if_revision;
}

static int next_revision(struct sqlite *s, uint64_t *ret_revision)
{
	sqlite3_stmt *stmt = s->stmt[NEXT_REVISION];
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW)
		*ret_revision = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return rc == SQLITE_ROW ? 0 : rc == SQLITE_DONE ? -EBADMSG : errno_of(rc);
}

static int write_apply(struct sqlite *s, const struct lg_store_write *write, uint64_t revision)
{
	sqlite3_stmt *stmt = s->stmt[PUT];

	if (write->how == LG_STORE_CHECK)
		return 0;
	if (!write->value) {
		key_bind(s->stmt[DELETE], write->key);
		return run(s, DELETE);
	}
	key_bind(stmt, write->key);
	sqlite3_bind_blob(stmt, 2, write->value, (int)write->len, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 3, (int64_t)revision);
	return run(s, PUT);
}

/* What is done between begin and commit. */
static int writes_apply(struct sqlite *s, const struct lg_store_write *writes, size_t n, uint64_t *ret_revision)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		r = revision_check(s, &writes[i]);
		if (r)
			return r;
	}
	r = next_revision(s, ret_revision);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = write_apply(s, &writes[i], *ret_revision);
	return r;
}

static int sqlite_commit(void *state, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg)
{
	struct sqlite *s = state;
	uint64_t revision = 0;
	int r;

	(void)done;
	(void)arg;
	r = run(s, BEGIN);
	if (r < 0)
		return r;
	r = writes_apply(s, writes, n, &revision);
	if (r == 0)
		r = run(s, COMMIT);
	if (r == 0)
		lg_witness_note(&s->witness, revision);
	/* Some failures have rolled back already. */
	if (r && !sqlite3_get_autocommit(s->db))
		run(s, ROLLBACK);
	return r;
}

static int sqlite_each(void *state, const char *prefix, lg_store_fn *fn, void *arg)
{
	struct sqlite *s = state;
	size_t prefix_len = strlen(prefix), key_len;
	char key[LG_STORE_KEY_MAX + 1];
	sqlite3_stmt *stmt = NULL;
	const void *value;
	int rc, r = 0;

	/* A statement of its own for each walk: fn may walk too. */
	rc = sqlite3_prepare_v2(s->db, "SELECT key, value, revision FROM entry WHERE key >= ?1 ORDER BY key", -1, &stmt,
				NULL);
	if (rc != SQLITE_OK)
		return errno_of(rc);
	sqlite3_bind_blob(stmt, 1, prefix, (int)prefix_len, SQLITE_STATIC);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		key_len = (size_t)sqlite3_column_bytes(stmt, 0);
		if (key_len > LG_STORE_KEY_MAX)
			continue;
		memcpy(key, sqlite3_column_blob(stmt, 0), key_len);
		key[key_len] = '\0';
		if (strncmp(key, prefix, prefix_len) != 0)
			break;
		value = sqlite3_column_blob(stmt, 1); /* NULL for an empty one */
		r = fn(arg, key, value ? value : "", (size_t)sqlite3_column_bytes(stmt, 1),
		       (uint64_t)sqlite3_column_int64(stmt, 2));
	}
	sqlite3_finalize(stmt);
	return r ? r : errno_of(rc);
}

static bool sqlite_is_doubted(const void *state)
{
	const struct sqlite *s = state;

	return s->witness.is_doubted;
}

static void sqlite_trust(void *state)
{
	struct sqlite *s = state;

	lg_witness_trust(&s->witness);
}

const struct lg_store_driver lg_store_sqlite = {
	.name = "sqlite",
	.open = sqlite_open,
	.close = sqlite_close,
	.is_ready = lg_store_own_is_ready,
	.get = sqlite_get,
	.each = sqlite_each,
	.commit = sqlite_commit,
	.join = lg_store_own_join,
	.here_until_ns = lg_store_own_here_until_ns,
	.here_since = lg_store_own_here_since,
	.is_doubted = sqlite_is_doubted,
	.trust = sqlite_trust,
};
