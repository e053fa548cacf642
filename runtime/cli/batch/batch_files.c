#include "cli/batch/batch_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/batch/batch_output.h"

static yk_status failed(const char *path, yk_err *err)
{
  return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
}

static yk_status open_input(yk_batch_files *files, yk_err *err)
{
  bool is_stream = strcmp(files->input_path, "-") == 0;
  struct stat info;
  files->input_fd = is_stream ? STDIN_FILENO : open(files->input_path, O_RDONLY | O_CLOEXEC);
  if (files->input_fd < 0 || fstat(files->input_fd, &info) != 0) return failed(files->input_path, err);
  if (S_ISDIR(info.st_mode))
    return yk_err_set(err, YK_E_IO, "%s: expected a file, found a directory", files->input_path);
  files->is_indexed = !is_stream && S_ISREG(info.st_mode);
  yk_jsonl_reader_init(&files->reader, files->input_fd, is_stream ? "standard input" : files->input_path,
                       YK_BATCH_LINE_MAX_BYTES);
  return YK_OK;
}

static yk_status append_hash(yk_batch_files *files, size_t *capacity, uint32_t hash, yk_err *err)
{
  if ((size_t)files->n_lines == *capacity) {
    *capacity = *capacity * 2 + 1024;
    uint32_t *grown = realloc(files->pending, *capacity * sizeof *grown);
    if (!grown)
      return yk_err_set(err, YK_E_NOMEM, "%s: no memory to index %lld lines", files->input_path,
                        (long long)files->n_lines);
    files->pending = grown;
  }
  files->pending[files->n_lines++] = hash;
  files->n_to_answer += hash != 0 && yk_batch_part_has(&files->part, files->n_lines);
  return YK_OK;
}

/* Reads the input once, for the hash of each line, and returns to its start. */
static yk_status index_input(yk_batch_files *files, yk_err *err)
{
  yk_jsonl_reader reader;
  yk_jsonl_event event = YK_JSONL_LINE;
  yk_jsonl_line line;
  size_t capacity = 0;
  yk_jsonl_reader_init(&reader, files->input_fd, files->input_path, YK_BATCH_LINE_MAX_BYTES);
  yk_status status = YK_OK;
  while (status == YK_OK) {
    status = yk_jsonl_read(&reader, -1, &event, &line, err);
    if (status != YK_OK || event == YK_JSONL_END) break;
    bool blank = yk_jsonl_is_blank(line.text, line.n_bytes);
    status = append_hash(files, &capacity, blank ? 0 : yk_hash(files->hash_start, line.text, line.n_bytes), err);
  }
  yk_jsonl_reader_free(&reader);
  if (status == YK_OK && lseek(files->input_fd, 0, SEEK_SET) != 0) return failed(files->input_path, err);
  return status;
}

static yk_status open_output(yk_batch_files *files, struct stat *info, yk_err *err)
{
  struct stat input;
  bool is_stream = strcmp(files->output_path, "-") == 0;
  files->output_fd =
      is_stream ? STDOUT_FILENO : open(files->output_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (files->output_fd < 0 || fstat(files->output_fd, info) != 0) return failed(files->output_path, err);
  yk_jsonl_writer_init(&files->writer, files->output_fd, is_stream ? "standard output" : files->output_path);
  if (is_stream || !S_ISREG(info->st_mode)) {
    info->st_size = 0;
    return YK_OK;
  }
  if (fstat(files->input_fd, &input) == 0 && input.st_dev == info->st_dev && input.st_ino == info->st_ino)
    return yk_err_set(err, YK_E_INVAL, "%s: is input and output at once", files->output_path);
  if (flock(files->output_fd, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? yk_err_set(err, YK_E_INVAL, "%s: another run is writing to it", files->output_path)
                                : failed(files->output_path, err);
  return YK_OK;
}

/* Marks the line of one stored result as done. */
static yk_status take_result(void *user, const yk_jsonl_line *line, yk_err *err)
{
  yk_batch_files *files = user;
  int64_t number;
  uint32_t hash;
  bool has_error;
  YK_TRY(yk_batch_output_parse(line->text, line->n_bytes, &number, &hash, &has_error, err));
  if (number < 1 || number > files->n_lines)
    return yk_err_set(err, YK_E_FORMAT, "is of line %lld, but %s has %lld lines", (long long)number, files->input_path,
                      (long long)files->n_lines);
  if (!yk_batch_part_has(&files->part, number))
    return yk_err_set(err, YK_E_FORMAT, "is of line %lld, which belongs to part %d of %d: each part has its own file",
                      (long long)number, yk_batch_part_of(files->part.count, number), files->part.count);
  uint32_t *pending = &files->pending[number - 1];
  if (*pending == 0)
    return yk_err_set(err, YK_E_FORMAT, "is of line %lld, which is blank or has a result already", (long long)number);
  if (*pending != hash)
    return yk_err_set(err, YK_E_FORMAT, "line %lld of %s, the model or the options were others then", (long long)number,
                      files->input_path);
  *pending = 0;
  files->n_done++;
  files->n_failed += has_error;
  return YK_OK;
}

static yk_status resume(yk_batch_files *files, int64_t output_bytes, yk_err *err)
{
  const yk_jsonl_stored stored = {.doubt = "does not belong to this run (--overwrite starts anew)",
                                  .max_line_bytes = SIZE_MAX / 2,
                                  .begins = yk_batch_output_begins,
                                  .take = take_result,
                                  .user = files};
  int64_t whole_bytes;
  if (!files->is_indexed)
    return yk_err_set(err, YK_E_INVAL, "%s: is not empty, and only a run that reads a file can be resumed",
                      files->output_path);
  YK_TRY(yk_jsonl_read_stored(files->output_fd, files->output_path, &stored, &whole_bytes, err));
  bool is_cut = whole_bytes >= output_bytes || ftruncate(files->output_fd, whole_bytes) == 0;
  return is_cut ? YK_OK : failed(files->output_path, err);
}

yk_status yk_batch_files_open(yk_batch_files *files, yk_err *err)
{
  struct stat output;
  files->input_fd = files->output_fd = -1;
  YK_TRY(open_input(files, err));
  if (files->is_indexed) YK_TRY(index_input(files, err));
  YK_TRY(open_output(files, &output, err));
  if (output.st_size == 0) return YK_OK;
  if (!files->overwrite) return resume(files, output.st_size, err);
  return ftruncate(files->output_fd, 0) == 0 ? YK_OK : failed(files->output_path, err);
}

void yk_batch_files_close(yk_batch_files *files)
{
  yk_jsonl_reader_free(&files->reader);
  free(files->pending);
  if (files->input_fd > STDERR_FILENO) close(files->input_fd);
  if (files->output_fd > STDERR_FILENO) close(files->output_fd);
}

bool yk_batch_files_skips(const yk_batch_files *files, int64_t line)
{
  if (!yk_batch_part_has(&files->part, line)) return true;
  return files->is_indexed && line <= files->n_lines && files->pending[line - 1] == 0;
}
