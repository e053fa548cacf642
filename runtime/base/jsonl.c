#include "base/jsonl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bom.h"
#include "base/clock.h"

enum { CHUNK_BYTES = 256 << 10 };

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

void yk_jsonl_reader_init(yk_jsonl_reader *reader, int fd, const char *name, size_t max_line_bytes)
{
  *reader = (yk_jsonl_reader){.fd = fd, .name = name, .max_line_bytes = max_line_bytes};
}

void yk_jsonl_reader_free(yk_jsonl_reader *reader)
{
  free(reader->buffer);
  reader->buffer = NULL;
}

static yk_status reserve_bytes(yk_jsonl_reader *reader, yk_err *err)
{
  size_t held = reader->end - reader->begin;
  if (reader->begin > 0) {
    memmove(reader->buffer, reader->buffer + reader->begin, held);
    reader->begin = 0;
    reader->end = held;
  }
  if (reader->capacity - held >= CHUNK_BYTES) return YK_OK;
  size_t capacity = held + held / 2 + CHUNK_BYTES;
  char *grown = realloc(reader->buffer, capacity);
  if (!grown) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a line of %zu bytes or more", reader->name, held);
  reader->buffer = grown;
  reader->capacity = capacity;
  return YK_OK;
}

/* One read(). *ready: false if the time limit passed first. */
static yk_status fill(yk_jsonl_reader *reader, int timeout_ms, bool *ready, yk_err *err)
{
  YK_TRY(reserve_bytes(reader, err));
  struct pollfd wait = {.fd = reader->fd, .events = POLLIN};
  int n_ready = poll(&wait, 1, timeout_ms);
  *ready = n_ready > 0;
  if (n_ready == 0 || (n_ready < 0 && errno == EINTR)) return YK_OK;
  ssize_t got = n_ready < 0 ? -1 : read(reader->fd, reader->buffer + reader->end, CHUNK_BYTES);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
    *ready = false;
    return YK_OK;
  }
  if (got < 0) return yk_err_set(err, YK_E_IO, "%s: %s", reader->name, strerror(errno));
  reader->end += (size_t)got;
  reader->at_end = got == 0;
  return YK_OK;
}

/* A line that is too long keeps its beginning; further bytes are dropped. */
static void drop_excess(yk_jsonl_reader *reader)
{
  size_t held = reader->end - reader->begin;
  if (held <= reader->max_line_bytes) return;
  reader->dropping = true;
  reader->position += (int64_t)(held - reader->max_line_bytes);
  reader->end = reader->begin + reader->max_line_bytes;
  reader->scanned = reader->max_line_bytes;
}

/* Return the first n_bytes of the buffer as a line and drop n_after more. */
static void take(yk_jsonl_reader *reader, size_t n_bytes, size_t n_after, yk_jsonl_line *line)
{
  bool too_long = reader->dropping || n_bytes > reader->max_line_bytes;
  *line = (yk_jsonl_line){.text = reader->buffer + reader->begin,
                          .n_bytes = n_bytes > reader->max_line_bytes ? reader->max_line_bytes : n_bytes,
                          .number = ++reader->n_lines,
                          .offset = reader->position,
                          .too_long = too_long,
                          .is_torn = n_after == 0};
  if (line->number == 1) {
    size_t n_bom_bytes = yk_bom_bytes(line->text, line->n_bytes);
    line->text += n_bom_bytes;
    line->n_bytes -= n_bom_bytes;
    line->offset += (int64_t)n_bom_bytes;
  }
  reader->begin += n_bytes + n_after;
  reader->position += (int64_t)(n_bytes + n_after);
  reader->scanned = 0;
  reader->dropping = false;
}

yk_status yk_jsonl_read(yk_jsonl_reader *reader, int timeout_ms, yk_jsonl_event *event, yk_jsonl_line *line,
                        yk_err *err)
{
  for (;;) {
    size_t held = reader->end - reader->begin;
    const char *from = reader->buffer + reader->begin;
    const char *newline = held > reader->scanned ? memchr(from + reader->scanned, '\n', held - reader->scanned) : NULL;
    *event = YK_JSONL_LINE;
    if (newline) {
      take(reader, (size_t)(newline - from), 1, line);
      return YK_OK;
    }
    reader->scanned = held;
    drop_excess(reader);
    if (reader->at_end) {
      if (held > 0)
        take(reader, reader->end - reader->begin, 0, line);
      else
        *event = YK_JSONL_END;
      return YK_OK;
    }
    bool ready;
    YK_TRY(fill(reader, timeout_ms, &ready, err));
    if (ready || timeout_ms < 0) continue;
    *event = YK_JSONL_WAIT;
    return YK_OK;
  }
}

bool yk_jsonl_is_blank(const char *text, size_t n_bytes)
{
  static const char white[] = {' ', '\t', '\r', '\n'};
  for (size_t i = 0; i < n_bytes; i++)
    if (!memchr(white, text[i], sizeof white)) return false;
  return true;
}

/* ---- Stored lines ------------------------------------------------------------------------------------------------ */

typedef enum stored_kind {
  STORED_WHOLE,
  STORED_BLANK,
  STORED_LOST, /* an incomplete last line */
  STORED_OTHER
} stored_kind;

static stored_kind kind_of(const yk_jsonl_stored *stored, const yk_jsonl_line *line)
{
  if (yk_jsonl_is_blank(line->text, line->n_bytes)) return STORED_BLANK;
  const char *zero = memchr(line->text, '\0', line->n_bytes);
  if (!zero && !line->is_torn) return STORED_WHOLE;
  size_t n_begun = zero ? (size_t)(zero - line->text) : line->n_bytes;
  for (size_t i = n_begun; i < line->n_bytes; i++)
    if (line->text[i] != '\0') return STORED_OTHER;
  return stored->begins(line->text, n_begun) ? STORED_LOST : STORED_OTHER;
}

static yk_status read_stored(yk_jsonl_reader *reader, const yk_jsonl_stored *stored, int64_t *whole_bytes, yk_err *err)
{
  yk_jsonl_event event;
  yk_jsonl_line line;
  bool lost = false;
  *whole_bytes = 0;
  for (;;) {
    YK_TRY(yk_jsonl_read(reader, -1, &event, &line, err));
    if (event == YK_JSONL_END) return YK_OK;
    stored_kind kind = kind_of(stored, &line);
    yk_status status = YK_OK;
    if (kind == STORED_OTHER)
      status = yk_err_set(err, YK_E_FORMAT, "not the beginning of a line of this format");
    else if (kind == STORED_WHOLE && lost)
      status = yk_err_set(err, YK_E_FORMAT, "follows a line that ends in bytes of zero");
    else if (kind == STORED_WHOLE)
      status = stored->take(stored->user, &line, err);
    if (status != YK_OK) {
      yk_err_prefix(err, "%s: %s%sline %lld", reader->name, stored->doubt ? stored->doubt : "",
                    stored->doubt ? ": " : "", (long long)line.number);
      return status;
    }
    lost |= kind == STORED_LOST;
    if (kind == STORED_WHOLE) *whole_bytes = reader->position;
  }
}

yk_status yk_jsonl_read_stored(int fd, const char *name, const yk_jsonl_stored *stored, int64_t *whole_bytes,
                               yk_err *err)
{
  yk_jsonl_reader reader;
  yk_jsonl_reader_init(&reader, fd, name, stored->max_line_bytes);
  yk_status status = read_stored(&reader, stored, whole_bytes, err);
  yk_jsonl_reader_free(&reader);
  return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

void yk_jsonl_writer_init(yk_jsonl_writer *writer, int fd, const char *name)
{
  struct stat info;
  *writer = (yk_jsonl_writer){.fd = fd, .name = name, .synced_ns = yk_clock_now_ns()};
  writer->is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

yk_status yk_jsonl_write(yk_jsonl_writer *writer, const char *line, size_t n_bytes, yk_err *err)
{
  writer->is_dirty = true;
  while (n_bytes > 0) {
    ssize_t written = write(writer->fd, line, n_bytes);
    if (written < 0 && errno == EAGAIN) {
      poll(&(struct pollfd){.fd = writer->fd, .events = POLLOUT}, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return yk_err_set(err, YK_E_IO, "%s: %s", writer->name, strerror(errno));
    } else if (written > 0) {
      line += written;
      n_bytes -= (size_t)written;
    }
  }
  return YK_OK;
}

yk_status yk_jsonl_sync(yk_jsonl_writer *writer, double interval_s, yk_err *err)
{
  if (!writer->is_file || !writer->is_dirty || yk_clock_seconds_since(writer->synced_ns) < interval_s) return YK_OK;
  if (fdatasync(writer->fd) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", writer->name, strerror(errno));
  writer->is_dirty = false;
  writer->synced_ns = yk_clock_now_ns();
  return YK_OK;
}
