/* jsonl.h - files of one JSON value a line: read as a stream in bounded memory, written so that a line is there whole
 * or not at all. A UTF-8 byte order mark before the first line is left out of it. One thread at a time. */
#ifndef YK_BASE_JSONL_H
#define YK_BASE_JSONL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

typedef struct yk_jsonl_reader {
  int fd;           /* the caller's */
  const char *name; /* for messages; the caller's */
  size_t max_line_bytes;
  char *buffer; /* [capacity], owned: bytes begin .. end - 1 are read and not yet given out */
  size_t capacity, begin, end;
  size_t scanned; /* bytes from begin on that are known to hold no newline */
  int64_t n_lines;
  int64_t position; /* in the file, behind the last line given out */
  bool dropping;    /* within a line that is too long */
  bool at_end;
} yk_jsonl_reader;

typedef enum yk_jsonl_event {
  YK_JSONL_LINE,
  YK_JSONL_WAIT, /* no whole line came within the time limit */
  YK_JSONL_END
} yk_jsonl_event;

typedef struct yk_jsonl_line {
  const char *text; /* [n_bytes] without its newline; valid until the next read */
  size_t n_bytes;
  int64_t number; /* from 1 */
  bool too_long;  /* beyond max_line_bytes: text is its beginning, and the rest has been dropped */
  bool is_torn;   /* the last line, without a newline */
} yk_jsonl_line;

/* yk_jsonl_reader_init - read fd from where it stands. max_line_bytes: a longer line is cut. Free with _free. */
void yk_jsonl_reader_init(yk_jsonl_reader *reader, int fd, const char *name, size_t max_line_bytes);
void yk_jsonl_reader_free(yk_jsonl_reader *reader);

/* yk_jsonl_read - the next line. timeout_ms: how long to wait for more input, -1 for ever.
 *   Errors: YK_E_IO naming the file, YK_E_NOMEM. */
yk_status yk_jsonl_read(yk_jsonl_reader *reader, int timeout_ms, yk_jsonl_event *event, yk_jsonl_line *line,
                        yk_err *err);

/* yk_jsonl_is_blank - nothing but JSON's white space. */
bool yk_jsonl_is_blank(const char *text, size_t n_bytes);

/* What is known of a file that this program has written line by line, maybe until a crash or a power cut: the last line
 * may be there in part, with bytes of zero in place of the rest. */
typedef struct yk_jsonl_stored {
  const char *doubt; /* in errors, between the file's name and the line's number; NULL: nothing */
  size_t max_line_bytes;
  bool (*begins)(const char *text, size_t n_bytes); /* whether a line may begin so; of no bytes too */
  yk_status (*take)(void *user, const yk_jsonl_line *line, yk_err *err); /* a line that is there whole */
  void *user;
} yk_jsonl_stored;

/* yk_jsonl_read_stored - take every whole line of fd, from where it stands; blank ones are passed over.
 *   *whole_bytes: how far the file reaches with the last line taken; what follows may be cut off.
 *   Errors: YK_E_IO, YK_E_NOMEM; YK_E_FORMAT where a line is neither whole nor the beginning of the last one, take's:
 *   with the number of the line. */
yk_status yk_jsonl_read_stored(int fd, const char *name, const yk_jsonl_stored *stored, int64_t *whole_bytes,
                               yk_err *err);

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

typedef struct yk_jsonl_writer {
  int fd;           /* the caller's */
  const char *name; /* for messages; the caller's */
  bool is_file;     /* can be synchronised */
  bool is_dirty;    /* written since the last sync */
  int64_t synced_ns;
} yk_jsonl_writer;

void yk_jsonl_writer_init(yk_jsonl_writer *writer, int fd, const char *name);

/* yk_jsonl_write - one line, which ends in its newline, by one write(): who stops between two calls leaves whole lines.
 *   The rest follows where the system takes less (a pipe). Errors: YK_E_IO naming the file. */
yk_status yk_jsonl_write(yk_jsonl_writer *writer, const char *line, size_t n_bytes, yk_err *err);

/* yk_jsonl_sync - bring what was written to the disk, unless that was done less than interval_s ago. Errors:
 *   YK_E_IO. */
yk_status yk_jsonl_sync(yk_jsonl_writer *writer, double interval_s, yk_err *err);

#endif
