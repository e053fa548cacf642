/* convert.c - yk_convert: check the options, open the source and write the result. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/struct_size.h"
#include "base/write_lock.h"
#include "convert/formats.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/safetensors_write.h"

static const yk_convert_options defaults = {
    .struct_size = sizeof defaults, .to = YK_CONVERT_AWQ, .shard_bytes = YK_SHARD_BYTES, .log = {.level = YK_LOG_WARN}};

void yk_convert_options_init_sized(yk_convert_options *options, size_t struct_size)
{
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

/* ---- An output directory that appears whole ---------------------------------------------------------------------- */

/* A file in a folder that is being written. A later run takes over a folder with this mark. */
static const char mark_name[] = "convert.run";

/* Removes all contents of a folder that this program created; the mark last, so that a run that is killed during the
 * removal leaves the mark. */
static void clear_folder(const char *folder)
{
  char mark[YK_PATH_BYTES];
  DIR *stream = opendir(folder);
  if (!stream) return;
  for (struct dirent *entry; (entry = readdir(stream));) {
    char path[YK_PATH_BYTES];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (strcmp(entry->d_name, mark_name) == 0) continue;
    if (yk_dir_path(folder, entry->d_name, path, NULL) != YK_OK) continue;
    if (unlink(path) == 0) continue;
    clear_folder(path);
    rmdir(path);
  }
  closedir(stream);
  if (yk_dir_path(folder, mark_name, mark, NULL) == YK_OK) unlink(mark);
}

/* dir: the output directory without trailing slashes. part: the folder in the same parent that is finally renamed to
 * dir. */
static yk_status name_folders(const char *out, char dir[YK_PATH_BYTES], char part[YK_PATH_BYTES], yk_err *err)
{
  size_t n = strlen(out);
  while (n > 1 && out[n - 1] == '/') n--;
  if (n + sizeof ".part" > YK_PATH_BYTES)
    return yk_err_set(err, YK_E_INVAL, "%.80s: the path is longer than a path can be", out);
  snprintf(dir, YK_PATH_BYTES, "%.*s", (int)n, out);
  snprintf(part, YK_PATH_BYTES, "%.*s.part", (int)n, out);
  return YK_OK;
}

static yk_status check_free(const char *dir, yk_err *err)
{
  DIR *stream = opendir(dir);
  if (!stream && errno == ENOENT) return YK_OK;
  if (!stream) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  size_t n = 0;
  while (readdir(stream)) n++;
  closedir(stream);
  if (n <= 2) return YK_OK; /* "." and ".." */
  return yk_err_set(err, YK_E_IO, "%s: expected a new or empty directory, found files in it", dir);
}

/* A killed run leaves a folder with its mark, or an empty folder: reuse the folder. */
static yk_status take_over(const char *part, yk_err *err)
{
  if (yk_dir_has(part, mark_name)) {
    clear_folder(part);
    return YK_OK;
  }
  yk_err found = YK_ERR_INIT;
  if (check_free(part, &found) == YK_OK) return YK_OK;
  return yk_err_set(err, YK_E_IO,
                    "%s: expected an empty directory or the files of an unfinished run, found other files", part);
}

/* Create the folder, empty except for the mark, and lock it until *fd is closed. */
static yk_status begin_part(const char *part, int *fd, yk_err *err)
{
  char mark[YK_PATH_BYTES];
  YK_TRY(yk_dir_path(part, mark_name, mark, err));
  YK_TRY(yk_dir_make(part, err));
  YK_TRY(yk_write_lock_dir(part, fd, err));
  yk_status status = take_over(part, err);
  int marked = status == YK_OK ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (status == YK_OK && marked < 0) status = yk_err_set(err, YK_E_IO, "%s: %s", mark, strerror(errno));
  if (marked >= 0) close(marked);
  if (status == YK_OK) return YK_OK;
  rmdir(part); /* has an effect only if the folder is empty */
  close(*fd);
  return status;
}

static yk_status write_part(const yk_convert_source *source, const yk_convert_options *options, const char *part,
                            const char *dir, yk_err *err)
{
  char mark[YK_PATH_BYTES];
  YK_TRY(yk_dir_path(dir, mark_name, mark, err));
  YK_TRY(yk_checkpoint_settle(source->checkpoint, yk_convert_write_awq(source, options, part, err), err));
  YK_TRY(yk_dir_sync(part, err));
  if (rename(part, dir) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  unlink(mark);
  return YK_OK;
}

static yk_status make_awq_dir(const yk_convert_source *source, const yk_convert_options *options, yk_err *err)
{
  char dir[YK_PATH_BYTES], part[YK_PATH_BYTES];
  int lock;
  YK_TRY(name_folders(options->out, dir, part, err));
  YK_TRY(check_free(dir, err));
  YK_TRY(begin_part(part, &lock, err));
  yk_status status = write_part(source, options, part, dir, err);
  if (status != YK_OK) {
    clear_folder(part);
    rmdir(part);
  }
  close(lock);
  return status;
}

/* ---- Conversion -------------------------------------------------------------------------------------------------- */

static yk_status convert(const yk_convert_options *options, yk_err *err)
{
  if (!options->model_dir || !options->out)
    return yk_err_set(err, YK_E_INVAL, "%s: expected a path, found nothing", options->model_dir ? "out" : "model_dir");
  if (options->to != YK_CONVERT_AWQ && options->to != YK_CONVERT_KUIPER)
    return yk_err_set(err, YK_E_INVAL, "to: expected YK_CONVERT_AWQ or YK_CONVERT_KUIPER, found %d", (int)options->to);
  yk_convert_source source;
  yk_status status = yk_convert_source_open(options->model_dir, &options->log, &source, err);
  if (status == YK_OK)
    status = options->to == YK_CONVERT_AWQ ? make_awq_dir(&source, options, err)
                                           : yk_convert_write_kuiper(&source, options, err);
  yk_convert_source_close(&source);
  return status;
}

yk_status yk_convert(const yk_convert_options *options, yk_err *err)
{
  yk_convert_options own = defaults;
  YK_TRY(yk_struct_read("yk_convert_options", options, YK_STRUCT_END(yk_convert_options, progress_user), &own,
                        sizeof own, err));
  return convert(&own, err);
}
