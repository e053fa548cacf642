/* journal.h - what a study has done so far, on the disk: DIR/journal.jsonl, one record a line, each synchronised before
 * the next thing is begun. A study that was interrupted reads it and goes on. The first line says what the study was
 * begun with; a study that asks for something else is refused by the name of what differs. What a crash or a power cut
 * left of the last line (half of it, or bytes of zero) is cut off. */
#ifndef YK_STUDY_JOURNAL_H
#define YK_STUDY_JOURNAL_H

#include "base/json_tree.h"
#include "base/jsonl.h"

typedef struct yk_study_journal {
  char *path; /* owned */
  int fd;     /* -1: not open */
  yk_jsonl_writer writer;
} yk_study_journal;

/* yk_study_journal_open - open or create dir/journal.jsonl, and dir where it is not there, and lock it.
 *   identity: an object of what the study is begun with, under names that a user knows. *records: an array of the
 *   records behind the first line, empty for a new study; the caller's. Close with yk_study_journal_close whatever is
 *   returned.
 *   Errors: YK_E_IO, YK_E_NOMEM; YK_E_INVAL where another process has the study, or naming what differs with both
 *   values; YK_E_FORMAT with the line that is no record: the file is left as it was. */
yk_status yk_study_journal_open(yk_study_journal *journal, const char *dir, const json_t *identity, json_t **records,
                                yk_err *err);

/* yk_study_journal_append - write a record and bring it to the disk. Errors: YK_E_IO, YK_E_NOMEM. */
yk_status yk_study_journal_append(yk_study_journal *journal, const json_t *record, yk_err *err);
void yk_study_journal_close(yk_study_journal *journal);

#endif
