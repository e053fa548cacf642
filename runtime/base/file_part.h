/* file_part.h - a file that appears whole: its bytes are written piece by piece to PATH.part, which is renamed to PATH
 * once all bytes are on the disk. A run that stops earlier leaves PATH unchanged.
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
  int lock_fd;     /* holds the lock until the file is renamed; -1: none */
  bool is_renamed;
} yk_file_part;

/* yk_file_part_check - that path can be replaced by a new file: no file exists, or a regular file. Renaming to a
 *   device, a pipe or a link would remove it. Errors: YK_E_IO naming the file. Thread: any. */
yk_status yk_file_part_check(const char *path, yk_err *err);

/* yk_file_part_open - start an empty PATH.part, also if a killed run left one. Errors: YK_E_IO naming the file (another
 *   run is writing the file; not a regular file), YK_E_NOMEM; nothing is open then. */
yk_status yk_file_part_open(const char *path, yk_file_part *out, yk_err *err);

/* yk_file_part_write - append bytes. Errors: YK_E_IO naming the file. */
yk_status yk_file_part_write(yk_file_part *part, const void *bytes, size_t n_bytes, yk_err *err);

/* yk_file_part_sync - write all bytes to the disk and close the file; no further writes are possible. Errors:
 * YK_E_IO. */
yk_status yk_file_part_sync(yk_file_part *part, yk_err *err);

/* yk_file_part_rename - rename the synchronised file to its final name. Errors: YK_E_IO. */
yk_status yk_file_part_rename(yk_file_part *part, yk_err *err);

/* yk_file_part_free - close the file and remove PATH.part unless it was renamed. A zeroed struct, or one that open
 *   failed to fill, is allowed. */
void yk_file_part_free(yk_file_part *part);

#endif
