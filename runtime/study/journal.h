/* journal.h - the record of a study's finished work: DIR/journal.jsonl, one record on each line, synchronised to disk
 * before the next step begins. An interrupted study reads the journal and resumes. The first line holds the settings of
 * the study; a study with other settings is refused, and the error names the difference. An incomplete last line after
 * a crash or power failure (half a line, or zero bytes) is cut off. */
#ifndef YK_STUDY_JOURNAL_H
#define YK_STUDY_JOURNAL_H

#include "base/json_tree.h"
#include "base/jsonl.h"

typedef struct yk_study_journal {
  char *path; /* owned */
  int fd;     /* -1: closed */
  yk_jsonl_writer writer;
} yk_study_journal;

/* yk_study_journal_open - open or create dir/journal.jsonl, and dir if missing, and lock the file.
 *   identity: an object of the study's settings, under names that the user knows. *records: an array of the records
 *   after the first line, empty for a new study; belongs to the caller. Close with yk_study_journal_close, even after
 *   an error.
 *   Errors: YK_E_IO, YK_E_NOMEM; YK_E_INVAL if another process has locked the study, or if a setting differs, with both
 *   values; YK_E_FORMAT with the line that is not a record: the file is unchanged. */
yk_status yk_study_journal_open(yk_study_journal *journal, const char *dir, const json_t *identity, json_t **records,
                                yk_err *err);

/* yk_study_journal_append - write a record and synchronise it to disk. Errors: YK_E_IO, YK_E_NOMEM. */
yk_status yk_study_journal_append(yk_study_journal *journal, const json_t *record, yk_err *err);
void yk_study_journal_close(yk_study_journal *journal);

#endif
