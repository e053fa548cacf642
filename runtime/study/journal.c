#include "study/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "study/folder.h"

enum { RECORD_MAX_BYTES = 64 << 20, VALUE_TEXT_BYTES = 80 };

static const char head_key[] = "yoke_study_journal";

static yk_status failed(const char *path, yk_err *err)
{
  return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
}

static yk_status open_file(yk_study_journal *journal, const char *dir, yk_err *err)
{
  struct stat info;
  YK_TRY(yk_study_make_folder(dir, err));
  yk_strbuf path = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&path, "%s/journal.jsonl", dir);
  journal->path = path.data;
  if (path.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for the path of a journal");
  journal->fd = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (journal->fd < 0 || fstat(journal->fd, &info) != 0) return failed(journal->path, err);
  if (!S_ISREG(info.st_mode)) return yk_err_set(err, YK_E_IO, "%s: expected a regular file", journal->path);
  if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? yk_err_set(err, YK_E_INVAL, "%s: another study is writing to it", journal->path)
                                : failed(journal->path, err);
  yk_jsonl_writer_init(&journal->writer, journal->fd, journal->path);
  return YK_OK;
}

/* ---- Identity ---------------------------------------------------------------------------------------------------- */

static void value_text(const json_t *value, char text[VALUE_TEXT_BYTES])
{
  char *dumped = value ? yk_tree_text(value, JSON_COMPACT) : NULL;
  snprintf(text, VALUE_TEXT_BYTES, "%s", dumped ? dumped : "nothing");
  free(dumped);
}

static yk_status compare_value(const char *name, const json_t *stored, const json_t *wanted, yk_err *err)
{
  char was[VALUE_TEXT_BYTES], is[VALUE_TEXT_BYTES];
  if (stored && wanted && json_equal(stored, wanted)) return YK_OK;
  value_text(stored, was);
  value_text(wanted, is);
  return yk_err_set(err, YK_E_INVAL, "the study was begun with another %.80s: expected %s, found %s", name, was, is);
}

static yk_status compare_identity(const json_t *head, const json_t *identity, yk_err *err)
{
  const char *name;
  json_t *value, *stored = json_object_get(head, "identity");
  if (json_integer_value(json_object_get(head, head_key)) != 1 || !json_is_object(stored))
    return yk_err_set(err, YK_E_FORMAT, "expected the head of a study's journal, found something else");
  json_object_foreach((json_t *)identity, name, value)
      YK_TRY(compare_value(name, json_object_get(stored, name), value, err));
  json_object_foreach(stored, name, value) YK_TRY(compare_value(name, value, json_object_get(identity, name), err));
  return YK_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
  const json_t *identity;
  json_t *records;
  bool has_head;
} reading;

static bool begins(const char *text, size_t n_bytes)
{
  return n_bytes == 0 || text[0] == '{';
}

static yk_status take_line(void *user, const yk_jsonl_line *line, yk_err *err)
{
  reading *into = user;
  json_t *record;
  if (line->too_long) return yk_err_set(err, YK_E_FORMAT, "is longer than %d bytes", RECORD_MAX_BYTES);
  YK_TRY(yk_tree_parse_line(line->text, line->n_bytes, &record, err));
  yk_status status = YK_OK;
  if (!json_is_object(record))
    status = yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_tree_type_name(record));
  else if (!into->has_head)
    status = compare_identity(record, into->identity, err);
  else if (json_array_append(into->records, record) != 0)
    status = yk_err_set(err, YK_E_NOMEM, "no memory for a record");
  into->has_head = true;
  json_decref(record);
  return status;
}

static yk_status write_head(yk_study_journal *journal, const json_t *identity, yk_err *err)
{
  json_t *head = json_pack("{s:i, s:O}", head_key, 1, "identity", identity);
  if (!head) return yk_err_set(err, YK_E_NOMEM, "no memory for the head of a journal");
  yk_status status = yk_study_journal_append(journal, head, err);
  json_decref(head);
  return status;
}

static yk_status read_journal(yk_study_journal *journal, const json_t *identity, json_t *records, yk_err *err)
{
  reading into = {identity, records, false};
  const yk_jsonl_stored stored = {
      .max_line_bytes = RECORD_MAX_BYTES, .begins = begins, .take = take_line, .user = &into};
  int64_t whole_bytes;
  YK_TRY(yk_jsonl_read_stored(journal->fd, journal->path, &stored, &whole_bytes, err));
  if (ftruncate(journal->fd, whole_bytes) != 0) return failed(journal->path, err);
  return into.has_head ? YK_OK : write_head(journal, identity, err);
}

yk_status yk_study_journal_open(yk_study_journal *journal, const char *dir, const json_t *identity, json_t **records,
                                yk_err *err)
{
  *journal = (yk_study_journal){.fd = -1};
  *records = NULL;
  YK_TRY(open_file(journal, dir, err));
  json_t *found = json_array();
  yk_status status = found ? read_journal(journal, identity, found, err)
                           : yk_err_set(err, YK_E_NOMEM, "%s: no memory for the records", journal->path);
  if (status == YK_OK)
    *records = found;
  else
    json_decref(found);
  return status;
}

yk_status yk_study_journal_append(yk_study_journal *journal, const json_t *record, yk_err *err)
{
  char *line = yk_tree_text(record, JSON_COMPACT);
  if (!line) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a record", journal->path);
  size_t n_bytes = strlen(line);
  line[n_bytes] = '\n'; /* in place of the NUL: one write() for the whole line */
  yk_status status = yk_jsonl_write(&journal->writer, line, n_bytes + 1, err);
  free(line);
  return status == YK_OK ? yk_jsonl_sync(&journal->writer, 0, err) : status;
}

void yk_study_journal_close(yk_study_journal *journal)
{
  if (journal->fd >= 0) close(journal->fd);
  free(journal->path);
  *journal = (yk_study_journal){.fd = -1};
}
