/* file_part.h - a file that appears whole: its bytes go piece by piece into PATH.part beside its place, which takes the
 * name PATH once everything is on the disk. Who stops before leaves nothing under PATH, and what stood there as it was.
 *
 *   yk_file_part part;
 *   YK_TRY(yk_file_part_open(path, &part, err));
 *   yk_status status = yk_file_part_write(&part, bytes, n_bytes, err); ...
 *   if (status == YK_OK) status = yk_file_part_sync(&part, err);
 *   if (status == YK_OK) status = yk_file_part_rename(&part, err);
 *   yk_file_part_free(&part);
 *
 * One thread at a time. */
#ifndef YK_BASE_FILE_PART_H
#define YK_BASE_FILE_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct yk_file_part {
  char *path;      /* owned; NULL: nothing is open */
  char *part_path; /* owned */
  int fd;          /* -1 once synchronised */
  int lock_fd;     /* keeps the lock until the file has its name; -1: none */
  bool is_renamed;
} yk_file_part;

/* yk_file_part_open - begin PATH.part anew, also where a run that was killed left one. Errors: YK_E_IO naming the file
 *   (another run is writing it), YK_E_NOMEM; nothing is open then. */
yk_status yk_file_part_open(const char *path, yk_file_part *out, yk_err *err);

/* yk_file_part_write - the next bytes. Errors: YK_E_IO naming the file. */
yk_status yk_file_part_write(yk_file_part *part, const void *bytes, size_t n_bytes, yk_err *err);

/* yk_file_part_sync - bring all bytes to the disk and close the file; nothing can be written afterwards. Errors:
 *   YK_E_IO. */
yk_status yk_file_part_sync(yk_file_part *part, yk_err *err);

/* yk_file_part_rename - give the synchronised file its name. Errors: YK_E_IO. */
yk_status yk_file_part_rename(yk_file_part *part, yk_err *err);

/* yk_file_part_free - close the file and, where PATH.part has not taken its name, remove it. One that is all zeros, or
 *   that open failed to fill, is allowed. */
void yk_file_part_free(yk_file_part *part);

#endif
