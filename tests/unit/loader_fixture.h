/* loader_fixture.h - shared by the loader's tests: temporary directories, files in them, safetensors images. */
#ifndef YK_UNIT_LOADER_FIXTURE_H
#define YK_UNIT_LOADER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dirent.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/strbuf.h"

/* Every one of the words (separated by "|") is in the message; "": the message is empty. */
static inline void expect_words(const char *what, const char *words, const char *message)
{
  char copy[256], *rest = copy;
  if (!words[0] && message[0]) fail_msg("%s: expected no message, found: %s", what, message);
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word; (word = strsep(&rest, "|"));)
    if (!strstr(message, word)) fail_msg("%s: \"%s\" is not in the message: %s", what, word, message);
}

/* A failure with this code whose message holds the words. */
static inline void expect_error(const char *what, yk_status expected, const char *words, yk_status status, yk_err *err)
{
  if (status != expected || err->code != expected)
    fail_msg("%s: expected \"%s\", found \"%s\": %s", what, yk_status_name(expected), yk_status_name(status),
             err->message);
  expect_words(what, words, err->message);
  yk_err_clear(err);
}

static inline void expect_ok(const char *what, yk_status status, const yk_err *err)
{
  if (status != YK_OK) fail_msg("%s: %s", what, err->message);
}

typedef struct temp_dir {
  char path[64];
} temp_dir;

static inline temp_dir temp_dir_make(void)
{
  temp_dir dir = {"/tmp/yoke-loader-XXXXXX"};
  assert_non_null(mkdtemp(dir.path));
  return dir;
}

static inline void write_file(const temp_dir *dir, const char *name, const void *bytes, size_t n_bytes)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir->path, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
  assert_int_equal(fclose(file), 0);
}

static inline void write_text(const temp_dir *dir, const char *name, const char *text)
{
  write_file(dir, name, text, strlen(text));
}

static inline void remove_file(const temp_dir *dir, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir->path, name);
  assert_int_equal(unlink(path), 0);
}

static inline size_t n_entries(const temp_dir *dir)
{
  size_t n = 0;
  DIR *stream = opendir(dir->path);
  assert_non_null(stream);
  for (struct dirent *entry; (entry = readdir(stream));) n += entry->d_name[0] != '.';
  closedir(stream);
  return n;
}

static inline void temp_dir_remove(const temp_dir *dir)
{
  DIR *stream = opendir(dir->path);
  assert_non_null(stream);
  for (struct dirent *entry; (entry = readdir(stream));)
    if (entry->d_name[0] != '.') remove_file(dir, entry->d_name);
  closedir(stream);
  assert_int_equal(rmdir(dir->path), 0);
}

/* Length, header and data in the form of a safetensors file. */
static inline yk_strbuf safetensors_image(const char *header, const void *data, size_t data_bytes)
{
  yk_strbuf image = YK_STRBUF_INIT;
  uint64_t length = strlen(header);
  for (int i = 0; i < 8; i++) yk_strbuf_append(&image, &(uint8_t){(uint8_t)(length >> 8 * i)}, 1);
  yk_strbuf_append_str(&image, header);
  yk_strbuf_append(&image, data, data_bytes);
  assert_false(image.failed);
  return image;
}

/* A file of the tensors of a module, each as "NAME DTYPE SHAPE BYTES;", whose bytes are consecutive parts of
 * data. */
static inline void write_module(const temp_dir *dir, const char *module, const char *tensors, const void *data,
                                size_t data_bytes)
{
  yk_strbuf header = YK_STRBUF_INIT;
  size_t n_bytes = 0;
  yk_strbuf_append_str(&header, "{");
  for (const char *entry = tensors; *entry; entry = strchr(entry, ';') + 1) {
    char name[64], dtype[16], shape[32];
    size_t size;
    assert_int_equal(sscanf(entry, "%63s %15s %31s %zu", name, dtype, shape, &size), 4);
    yk_strbuf_append_fmt(&header, "%s\"%s.%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                         n_bytes ? "," : "", module, name, dtype, shape, n_bytes, n_bytes + size);
    n_bytes += size;
  }
  yk_strbuf_append_str(&header, "}");
  assert_true(n_bytes <= data_bytes);
  yk_strbuf image = safetensors_image(header.data, data, n_bytes);
  write_file(dir, "model.safetensors", image.data, image.length);
  yk_strbuf_free(&image);
  yk_strbuf_free(&header);
}

static inline void write_layer(const temp_dir *dir, const char *tensors, const void *data, size_t data_bytes)
{
  write_module(dir, "layer", tensors, data, data_bytes);
}

#endif
