#include "cli/batch/merge_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_part.h"
#include "base/hash.h"
#include "base/jsonl.h"
#include "cli/batch/batch_files.h"
#include "cli/batch/batch_output.h"

struct yk_merge_place {
  int64_t offset;
  size_t n_bytes; /* without the newline; 0: no result */
  uint32_t hash;
  int32_t part; /* index in part_paths */
};

static yk_status failed(const char *path, yk_err *err)
{
  return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

typedef struct reading {
  yk_merge *merge;
  size_t part;
  int64_t max_lines; /* that the input can have */
} reading;

static yk_status grow(yk_merge *merge, int64_t n_places, yk_err *err)
{
  int64_t capacity = merge->n_places + merge->n_places / 2 + 1024;
  if (capacity < n_places) capacity = n_places;
  yk_merge_place *grown = realloc(merge->places, (size_t)capacity * sizeof *grown);
  if (!grown) return yk_err_set(err, YK_E_NOMEM, "no memory for the places of %lld results", (long long)capacity);
  memset(grown + merge->n_places, 0, (size_t)(capacity - merge->n_places) * sizeof *grown);
  merge->places = grown;
  merge->n_places = capacity;
  return YK_OK;
}

static yk_status take_result(void *user, const yk_jsonl_line *line, yk_err *err)
{
  const reading *r = user;
  yk_merge *merge = r->merge;
  int64_t number;
  uint32_t hash;
  bool has_error;
  YK_TRY(yk_batch_output_parse(line->text, line->n_bytes, &number, &hash, &has_error, err));
  if (number < 1 || number > r->max_lines)
    return yk_err_set(err, YK_E_FORMAT, "is of line %lld, which %s does not have", (long long)number,
                      merge->input_path);
  if (number > merge->n_places) YK_TRY(grow(merge, number, err));
  yk_merge_place *place = &merge->places[number - 1];
  if (place->n_bytes)
    return yk_err_set(err, YK_E_FORMAT, "is of line %lld, which has a result in %s already", (long long)number,
                      merge->part_paths[place->part]);
  *place = (yk_merge_place){line->offset, line->n_bytes, hash, (int32_t)r->part};
  merge->n_results++;
  merge->n_failed += has_error;
  return YK_OK;
}

static yk_status read_part(yk_merge *merge, size_t part, int64_t max_lines, yk_err *err)
{
  const char *path = merge->part_paths[part];
  reading state = {merge, part, max_lines};
  const yk_jsonl_stored stored = {.doubt = "does not belong to this batch",
                                  .max_line_bytes = SIZE_MAX / 2,
                                  .begins = yk_batch_output_begins,
                                  .take = take_result,
                                  .user = &state};
  int64_t whole_bytes;
  int fd = merge->part_fds[part] = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return failed(path, err);
  if (!S_ISREG(info.st_mode)) return yk_err_set(err, YK_E_IO, "%s: expected a file", path);
  if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return yk_err_set(err, YK_E_INVAL, "%s: a run is writing to it", path);
  return yk_jsonl_read_stored(fd, path, &stored, &whole_bytes, err);
}

/* ---- The input --------------------------------------------------------------------------------------------------- */

/* The initial value of all hashes, and the result from which it was derived. */
typedef struct origin {
  bool is_known;
  uint32_t start;
  int64_t line;
} origin;

static yk_status check_hash(const yk_merge *merge, const yk_jsonl_line *line, origin *from, yk_err *err)
{
  const yk_merge_place *place = &merge->places[line->number - 1];
  if (!from->is_known && place->hash != 1)
    *from = (origin){true, yk_hash_undo(place->hash, line->text, line->n_bytes), line->number};
  if (!from->is_known || yk_hash(from->start, line->text, line->n_bytes) == place->hash) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "the results of line %lld (%s) and of line %lld (%s) are not of one run over %s: the input, the "
                    "model or the options were others",
                    (long long)from->line, merge->part_paths[merge->places[from->line - 1].part],
                    (long long)line->number, merge->part_paths[place->part], merge->input_path);
}

static yk_status add_missing(yk_merge *merge, int64_t line, yk_err *err)
{
  if ((merge->n_missing & (merge->n_missing - 1)) == 0) { /* 0 or a power of two: full */
    size_t capacity = merge->n_missing ? 2 * (size_t)merge->n_missing : 1;
    int64_t *grown = realloc(merge->missing, capacity * sizeof *grown);
    if (!grown) return yk_err_set(err, YK_E_NOMEM, "no memory to list missing lines");
    merge->missing = grown;
  }
  merge->missing[merge->n_missing++] = line;
  return YK_OK;
}

static yk_status take_input(yk_merge *merge, const yk_jsonl_line *line, origin *from, yk_err *err)
{
  bool has_result = line->number <= merge->n_places && merge->places[line->number - 1].n_bytes;
  if (has_result) return check_hash(merge, line, from, err);
  return yk_jsonl_is_blank(line->text, line->n_bytes) ? YK_OK : add_missing(merge, line->number, err);
}

static yk_status read_lines(yk_merge *merge, yk_jsonl_reader *reader, yk_err *err)
{
  yk_jsonl_event event;
  yk_jsonl_line line;
  origin from = {0};
  int64_t n_lines = 0;
  for (;;) {
    YK_TRY(yk_jsonl_read(reader, -1, &event, &line, err));
    if (event == YK_JSONL_END) break;
    n_lines = line.number;
    YK_TRY(take_input(merge, &line, &from, err));
  }
  for (int64_t i = n_lines; i < merge->n_places; i++)
    if (merge->places[i].n_bytes)
      return yk_err_set(err, YK_E_FORMAT, "%s: has a result of line %lld, but %s has %lld lines",
                        merge->part_paths[merge->places[i].part], (long long)i + 1, merge->input_path,
                        (long long)n_lines);
  return YK_OK;
}

yk_status yk_merge_read(yk_merge *merge, yk_err *err)
{
  struct stat info;
  merge->part_fds = malloc((merge->n_parts + 1) * sizeof *merge->part_fds);
  if (!merge->part_fds) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu parts", merge->n_parts);
  for (size_t i = 0; i < merge->n_parts; i++) merge->part_fds[i] = -1;
  int fd = open(merge->input_path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    yk_status status =
        fd < 0 ? failed(merge->input_path, err) : yk_err_set(err, YK_E_IO, "%s: expected a file", merge->input_path);
    if (fd >= 0) close(fd);
    return status;
  }
  yk_status status = YK_OK;
  yk_jsonl_reader reader;
  yk_jsonl_reader_init(&reader, fd, merge->input_path, YK_BATCH_LINE_MAX_BYTES);
  for (size_t i = 0; i < merge->n_parts && status == YK_OK; i++) status = read_part(merge, i, info.st_size + 1, err);
  if (status == YK_OK) status = read_lines(merge, &reader, err);
  yk_jsonl_reader_free(&reader);
  close(fd);
  return status;
}

/* ---- Output ------------------------------------------------------------------------------------------------------ */

static yk_status read_whole(int fd, const char *path, char *bytes, const yk_merge_place *place, yk_err *err)
{
  for (size_t n = 0; n < place->n_bytes;) {
    ssize_t got = pread(fd, bytes + n, place->n_bytes - n, place->offset + (int64_t)n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, err);
    if (got == 0) return yk_err_set(err, YK_E_IO, "%s: became shorter while it was read", path);
    n += (size_t)got;
  }
  return YK_OK;
}

/* part: NULL for standard output. */
static yk_status write_line(yk_file_part *part, const char *line, size_t n_bytes, yk_err *err)
{
  if (part) return yk_file_part_write(part, line, n_bytes, err);
  return fwrite(line, 1, n_bytes, stdout) == n_bytes ? YK_OK : failed("standard output", err);
}

static yk_status copy_results(const yk_merge *merge, yk_file_part *part, yk_err *err)
{
  char *line = NULL;
  size_t capacity = 0;
  yk_status status = YK_OK;
  for (int64_t i = 0; i < merge->n_places && status == YK_OK; i++) {
    const yk_merge_place *place = &merge->places[i];
    if (!place->n_bytes) continue;
    if (place->n_bytes >= capacity) {
      free(line);
      capacity = 2 * place->n_bytes + 1;
      line = malloc(capacity);
    }
    if (!line) {
      status = yk_err_set(err, YK_E_NOMEM, "no memory for a result of %zu bytes", place->n_bytes);
      break;
    }
    status = read_whole(merge->part_fds[place->part], merge->part_paths[place->part], line, place, err);
    line[place->n_bytes] = '\n';
    if (status == YK_OK) status = write_line(part, line, place->n_bytes + 1, err);
  }
  free(line);
  return status;
}

static yk_status refuse_same_file(const yk_merge *merge, const char *path, yk_err *err)
{
  struct stat output, other;
  if (stat(path, &output) != 0) return YK_OK;
  for (size_t i = 0; i <= merge->n_parts; i++) {
    const char *name = i < merge->n_parts ? merge->part_paths[i] : merge->input_path;
    if (stat(name, &other) == 0 && other.st_dev == output.st_dev && other.st_ino == output.st_ino)
      return yk_err_set(err, YK_E_INVAL, "%s: is input and output at once", path);
  }
  return YK_OK;
}

yk_status yk_merge_write(const yk_merge *merge, const char *path, yk_err *err)
{
  if (strcmp(path, "-") == 0) {
    YK_TRY(copy_results(merge, NULL, err));
    return fflush(stdout) == 0 ? YK_OK : failed("standard output", err);
  }
  YK_TRY(refuse_same_file(merge, path, err));
  yk_file_part part;
  YK_TRY(yk_file_part_open(path, &part, err));
  yk_status status = copy_results(merge, &part, err);
  if (status == YK_OK) status = yk_file_part_sync(&part, err);
  if (status == YK_OK) status = yk_file_part_rename(&part, err);
  yk_file_part_free(&part);
  return status;
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

void yk_merge_list(const int64_t *lines, size_t n, size_t max_ranges, yk_strbuf *out)
{
  size_t n_ranges = 0;
  for (size_t i = 0, next; i < n; i = next, n_ranges++) {
    if (n_ranges == max_ranges) {
      yk_strbuf_append_str(out, ", ...");
      return;
    }
    for (next = i + 1; next < n && lines[next] == lines[next - 1] + 1;) next++;
    yk_strbuf_append_fmt(out, "%s%lld", i ? ", " : "", (long long)lines[i]);
    if (next > i + 1) yk_strbuf_append_fmt(out, "-%lld", (long long)lines[next - 1]);
  }
}

void yk_merge_free(yk_merge *merge)
{
  for (size_t i = 0; merge->part_fds && i < merge->n_parts; i++)
    if (merge->part_fds[i] >= 0) close(merge->part_fds[i]);
  free(merge->part_fds);
  free(merge->places);
  free(merge->missing);
}
