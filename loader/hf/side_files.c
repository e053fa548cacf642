#include "loader/hf/side_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "loader/hf/hf_parts.h"
#include "loader/safetensors/dir.h"

enum { MAX_BYTES = 256 << 20 };

static const char *const names[] = {"generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "tokenizer.model",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "vocab.txt",
                                    "merges.txt",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "modules.json",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json",
                                    "LICENSE",
                                    "NOTICE"};

static const char templates[] = "additional_chat_templates";

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static bool is_side_file(const char *name)
{
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return ends_with(name, ".jinja") || ends_with(name, ".tiktoken") || ends_with(name, ".py");
}

static yk_status copy_file(const char *from, const char *to, const char *name, yk_err *err)
{
  char source[YK_PATH_BYTES], target[YK_PATH_BYTES], *bytes;
  struct stat info;
  size_t n_bytes;
  YK_TRY(yk_dir_path(from, name, source, err));
  YK_TRY(yk_dir_path(to, name, target, err));
  if (stat(source, &info) != 0 || !S_ISREG(info.st_mode)) return YK_OK;
  YK_TRY(yk_file_read(source, MAX_BYTES, &bytes, &n_bytes, err));
  yk_status status = yk_file_replace(target, bytes, n_bytes, err);
  free(bytes);
  return status;
}

static yk_status copy_folder(const char *from, const char *to, yk_err *err)
{
  DIR *stream = opendir(from);
  if (!stream) return yk_err_set(err, YK_E_IO, "%s: %s", from, strerror(errno));
  yk_status status = YK_OK;
  for (struct dirent *entry; status == YK_OK && (entry = readdir(stream));)
    if (is_side_file(entry->d_name)) status = copy_file(from, to, entry->d_name, err);
  closedir(stream);
  return status;
}

/* The configuration of the module that pools, in a folder that modules.json names. */
static yk_status copy_pooling(const char *from, const char *to, yk_err *err)
{
  char folder[YK_POOLING_FOLDER_BYTES], source[YK_PATH_BYTES], target[YK_PATH_BYTES], *text;
  size_t n_bytes;
  yk_json_doc *modules;
  YK_TRY(yk_dir_read(from, "modules.json", false, &text, &n_bytes, err));
  if (!text) return YK_OK;
  yk_status status = yk_json_parse("modules.json", text, n_bytes, NULL, &modules, err);
  free(text);
  YK_TRY(status);
  bool is_found = yk_hf_find_pooling(yk_json_root(modules), folder);
  yk_json_free(modules);
  if (!is_found || !yk_dir_has(from, folder)) return YK_OK;
  YK_TRY(yk_dir_path(from, folder, source, err));
  YK_TRY(yk_dir_path(to, folder, target, err));
  YK_TRY(yk_dir_make(target, err));
  return copy_file(source, target, "config.json", err);
}

yk_status yk_side_files_copy(const char *from, const char *to, yk_err *err)
{
  char source[YK_PATH_BYTES], target[YK_PATH_BYTES];
  YK_TRY(copy_folder(from, to, err));
  YK_TRY(copy_pooling(from, to, err));
  if (!yk_dir_has(from, templates)) return YK_OK;
  YK_TRY(yk_dir_path(from, templates, source, err));
  YK_TRY(yk_dir_path(to, templates, target, err));
  YK_TRY(yk_dir_make(target, err));
  return copy_folder(source, target, err);
}
