/* jsonl.h - files with one JSON value per line: read as a stream in bounded memory, written so that a line is complete
 * or missing. A UTF-8 byte order mark before the first line is skipped. One thread at a time. */
#ifndef YK_BASE_JSONL_H
#define YK_BASE_JSONL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

typedef struct yk_jsonl_reader {
  int fd;           /* owned by the caller */
  const char *name; /* for messages; owned by the caller */
  size_t max_line_bytes;
  char *buffer; /* [capacity], owned: bytes begin .. end - 1 are read and not yet returned */
  size_t capacity, begin, end;
  size_t scanned; /* bytes from begin on that contain no newline */
  int64_t n_lines;
  int64_t position; /* in the file, after the last line returned */
  bool dropping;    /* inside a line that is too long */
  bool at_end;
} yk_jsonl_reader;

typedef enum yk_jsonl_event {
  YK_JSONL_LINE,
  YK_JSONL_WAIT, /* no whole line arrived within the time limit */
  YK_JSONL_END
} yk_jsonl_event;

typedef struct yk_jsonl_line {
  const char *text; /* [n_bytes] without its newline; valid until the next read */
  size_t n_bytes;
  int64_t number; /* from 1 */
  int64_t offset; /* of text, from where the reader began; not valid for a line that is too long */
  bool too_long;  /* longer than max_line_bytes: text is the beginning of the line, without the dropped bytes */
  bool is_torn;   /* the last line, without a newline */
} yk_jsonl_line;

/* yk_jsonl_reader_init - read fd from its current position. max_line_bytes: a longer line is cut. Free with
 *   yk_jsonl_reader_free. */
void yk_jsonl_reader_init(yk_jsonl_reader *reader, int fd, const char *name, size_t max_line_bytes);
void yk_jsonl_reader_free(yk_jsonl_reader *reader);

/* yk_jsonl_read - the next line. timeout_ms: time limit for more input, -1 for none.
 *   Errors: YK_E_IO naming the file, YK_E_NOMEM. */
yk_status yk_jsonl_read(yk_jsonl_reader *reader, int timeout_ms, yk_jsonl_event *event, yk_jsonl_line *line,
                        yk_err *err);

/* yk_jsonl_is_blank - whether the text has only JSON white space. */
bool yk_jsonl_is_blank(const char *text, size_t n_bytes);

/* Properties of a file that this program has written line by line, possibly until a crash or a power cut: the last line
 * may be incomplete, with zero bytes in place of the missing end. */
typedef struct yk_jsonl_stored {
  const char *doubt; /* in errors, between file name and line number; NULL: nothing */
  size_t max_line_bytes;
  bool (*begins)(const char *text, size_t n_bytes); /* whether a line may begin with this text, which may be empty */
  yk_status (*take)(void *user, const yk_jsonl_line *line, yk_err *err); /* takes a complete line */
  void *user;
} yk_jsonl_stored;

/* yk_jsonl_read_stored - pass every complete line of fd, from its current position, to take. Blank lines are skipped.
 *   *whole_bytes: length of the file up to the last line taken; the rest may be truncated.
 *   Errors: YK_E_IO, YK_E_NOMEM; YK_E_FORMAT if a line is neither complete nor the beginning of the last line; those of
 *   take. They name the number of the line. */
yk_status yk_jsonl_read_stored(int fd, const char *name, const yk_jsonl_stored *stored, int64_t *whole_bytes,
                               yk_err *err);

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

typedef struct yk_jsonl_writer {
  int fd;           /* owned by the caller */
  const char *name; /* for messages; owned by the caller */
  bool is_file;     /* a regular file, which can be synchronised */
  bool is_dirty;    /* written since the last sync */
  int64_t synced_ns;
} yk_jsonl_writer;

void yk_jsonl_writer_init(yk_jsonl_writer *writer, int fd, const char *name);

/* yk_jsonl_write - write one line, including its newline, with one write(): a program that stops between two calls
 *   leaves complete lines. If the system takes fewer bytes (a pipe), further calls write the remaining bytes. Errors:
 *   YK_E_IO naming the file. */
yk_status yk_jsonl_write(yk_jsonl_writer *writer, const char *line, size_t n_bytes, yk_err *err);

/* yk_jsonl_sync - flush written data to the disk, unless that happened less than interval_s ago. Errors: YK_E_IO. */
yk_status yk_jsonl_sync(yk_jsonl_writer *writer, double interval_s, yk_err *err);

#endif
