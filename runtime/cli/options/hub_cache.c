#include "cli/options/hub_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/strbuf.h"

enum { NAME_MAX_CHARS = 96, REF_MAX_BYTES = 256, NAMED_FILES = 3 };

/* ---- Names and places -------------------------------------------------------------------------------------------- */

static bool is_part(const char *text, size_t length)
{
  if (length == 0 || text[0] == '.' || text[0] == '-') return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i])) return false;
  return true;
}

bool yk_hub_is_name(const char *text)
{
  size_t length = strlen(text), n_org = strcspn(text, "/");
  if (length > NAME_MAX_CHARS || strstr(text, "..")) return false;
  if (n_org == length) return is_part(text, length);
  return is_part(text, n_org) && is_part(text + n_org + 1, length - n_org - 1);
}

static const char *given(const char *variable)
{
  const char *value = getenv(variable);
  return value && value[0] ? value : NULL;
}

/* Appends a path with ~ expanded, and a folder below. */
static void append_path(yk_strbuf *out, const char *path, const char *below)
{
  const char *home = given("HOME");
  bool is_of_home = path[0] == '~' && (path[1] == '/' || path[1] == '\0') && home;
  yk_strbuf_append_fmt(out, "%s%s%s", is_of_home ? home : "", is_of_home ? path + 1 : path, below);
}

static void append_cache(yk_strbuf *out, const char *cache)
{
  if (!cache) cache = given("HF_HUB_CACHE");
  if (!cache) cache = given("HUGGINGFACE_HUB_CACHE"); /* older name of the variable */
  const char *hf_home = given("HF_HOME"), *xdg = given("XDG_CACHE_HOME");
  if (cache)
    append_path(out, cache, "");
  else if (hf_home)
    append_path(out, hf_home, "/hub");
  else
    append_path(out, xdg ? xdg : "~/.cache", "/huggingface/hub");
}

static void append_folder(yk_strbuf *out, const yk_hub_query *query)
{
  append_cache(out, query->cache);
  yk_strbuf_append_str(out, "/models--");
  for (const char *at = query->name; *at; at++) {
    if (*at == '/')
      yk_strbuf_append_str(out, "--");
    else
      yk_strbuf_append(out, at, 1);
  }
}

static bool is_dir(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Appends "hf download NAME" with the query's options. */
static void append_command(yk_strbuf *out, const yk_hub_query *query)
{
  yk_strbuf_append_fmt(out, "hf download %s", query->name);
  if (query->revision) yk_strbuf_append_fmt(out, " --revision %s", query->revision);
  if (query->cache) yk_strbuf_append_fmt(out, " --cache-dir %s", query->cache);
}

/* ---- The snapshot of a revision ---------------------------------------------------------------------------------- */

/* Reads the commit in a file of refs, without white space; false if there is none. */
static bool read_ref(const char *folder, const char *revision, char commit[REF_MAX_BYTES])
{
  yk_strbuf path = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&path, "%s/refs/%s", folder, revision);
  FILE *file = path.failed || is_dir(path.data) ? NULL : fopen(path.data, "r");
  yk_strbuf_free(&path);
  if (!file) return false;
  size_t got = fread(commit, 1, REF_MAX_BYTES - 1, file);
  fclose(file);
  while (got > 0 && isspace((unsigned char)commit[got - 1])) got--;
  commit[got] = '\0';
  return got > 0 && !strchr(commit, '/') && commit[0] != '.';
}

static bool has_snapshot(const char *folder, const char *commit)
{
  yk_strbuf path = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&path, "%s/snapshots/%s", folder, commit);
  const bool found = !path.failed && is_dir(path.data);
  yk_strbuf_free(&path);
  return found;
}

static bool is_whole_ref(const char *folder, const char *revision)
{
  char commit[REF_MAX_BYTES];
  return read_ref(folder, revision, commit) && has_snapshot(folder, commit);
}

/* Appends the names in a folder of the cache's folder that can be given as a revision. */
static void append_names(yk_strbuf *out, const char *folder, const char *below,
                         bool (*is_revision)(const char *folder, const char *name))
{
  yk_strbuf path = YK_STRBUF_INIT;
  struct dirent *entry;
  yk_strbuf_append_fmt(&path, "%s%s", folder, below);
  DIR *dir = path.failed ? NULL : opendir(path.data);
  const char *between = "";
  while (dir && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.' || !is_revision(folder, entry->d_name)) continue;
    yk_strbuf_append_fmt(out, "%s%s", between, entry->d_name);
    between = ", ";
  }
  if (dir) closedir(dir);
  yk_strbuf_free(&path);
}

static yk_status no_model(const yk_hub_query *query, yk_err *err)
{
  yk_strbuf cache = YK_STRBUF_INIT, command = YK_STRBUF_INIT;
  append_cache(&cache, query->cache);
  append_command(&command, query);
  if (cache.failed || command.failed)
    yk_err_set(err, YK_E_NOMEM, "no memory for a path");
  else if (strchr(query->name, '/'))
    yk_err_set(err, YK_E_IO,
               "%s: no such directory, and not in the Hugging Face cache; download it: %s (the cache is %s)",
               query->name, command.data, cache.data);
  else
    yk_err_set(err, YK_E_IO, "%s: No such file or directory; models in the Hugging Face cache are called ORG/NAME",
               query->name);
  yk_strbuf_free(&cache);
  yk_strbuf_free(&command);
  return err->code;
}

static yk_status no_revision(const yk_hub_query *query, const char *folder, yk_err *err)
{
  yk_strbuf refs = YK_STRBUF_INIT, command = YK_STRBUF_INIT;
  append_names(&refs, folder, "/refs", is_whole_ref);
  append_command(&command, query);
  if (refs.length == 0) append_names(&refs, folder, "/snapshots", has_snapshot);
  if (refs.failed || command.failed)
    yk_err_set(err, YK_E_NOMEM, "no memory for a path");
  else
    yk_err_set(err, YK_E_IO, "%s: no revision %s of it in the Hugging Face cache%s; download it: %s%s%s", query->name,
               query->revision ? query->revision : "main", refs.length ? "" : ", nor any other", command.data,
               refs.length ? ", or take (--revision) one of: " : "", refs.length ? refs.data : "");
  yk_strbuf_free(&refs);
  yk_strbuf_free(&command);
  return err->code;
}

static yk_status find_snapshot(const yk_hub_query *query, const char *folder, yk_strbuf *snapshot, yk_err *err)
{
  const char *revision = query->revision ? query->revision : "main";
  char commit[REF_MAX_BYTES];
  if (!revision[0] || revision[0] == '/' || strstr(revision, "..") || strlen(revision) >= sizeof commit)
    return yk_err_set(err, YK_E_INVAL, "--revision: expected a branch, a tag or a whole commit, found \"%.80s\"",
                      revision);
  if (!read_ref(folder, revision, commit)) snprintf(commit, sizeof commit, "%s", revision);
  yk_strbuf_append_fmt(snapshot, "%s/snapshots/%s", folder, commit);
  if (snapshot->failed) return yk_err_set(err, YK_E_NOMEM, "no memory for a path");
  return is_dir(snapshot->data) ? YK_OK : no_revision(query, folder, err);
}

/* ---- Whether it is complete -------------------------------------------------------------------------------------- */

/* Missing files. */
typedef struct missing {
  yk_strbuf names; /* each between line feeds */
  size_t n;
} missing;

static void add_missing(missing *files, const char *name)
{
  yk_strbuf line = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&line, "\n%s\n", name);
  files->names.failed = files->names.failed || line.failed;
  if (!line.failed && (files->n == 0 || !strstr(files->names.data, line.data))) {
    yk_strbuf_append_str(&files->names, line.data);
    files->n++;
  }
  yk_strbuf_free(&line);
}

/* Appends the first few names and the number of the remaining names. */
static void append_missing(yk_strbuf *out, const missing *files)
{
  const char *at = files->names.data + 1;
  for (size_t i = 0; i < files->n && i < NAMED_FILES; i++) {
    size_t length = strcspn(at, "\n");
    yk_strbuf_append_fmt(out, "%s%.*s", i ? ", " : "", (int)length, at);
    at += length + 2;
  }
  if (files->n > NAMED_FILES) yk_strbuf_append_fmt(out, " and %zu more", files->n - NAMED_FILES);
}

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static bool is_there(const char *snapshot, const char *name)
{
  yk_strbuf path = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&path, "%s/%s", snapshot, name);
  bool found = !path.failed && access(path.data, F_OK) == 0; /* follows links */
  yk_strbuf_free(&path);
  return found;
}

/* Checks the files of weights that an index names. */
static yk_status check_index(const char *snapshot, const char *name, missing *files, yk_err *err)
{
  yk_strbuf path = YK_STRBUF_INIT;
  yk_json_doc *index = NULL;
  yk_strbuf_append_fmt(&path, "%s/%s", snapshot, name);
  yk_status status = path.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a path")
                                 : yk_json_parse_file(path.data, NULL, &index, err);
  YK_JSON_EACH_KEY(tensor, yk_json_get(yk_json_root(index), "weight_map"))
  {
    const char *file = yk_json_string(yk_json_member(tensor));
    if (file && !is_there(snapshot, file)) add_missing(files, file);
  }
  yk_json_free(index);
  yk_strbuf_free(&path);
  return status;
}

/* Checks the directory's files: broken links, indexes, and whether there are weights. */
static yk_status check_entries(const char *snapshot, struct dirent **entries, int n, bool needs_weights, missing *files,
                               bool *has_weights, yk_err *err)
{
  bool has_index = false, has_shards = false;
  *has_weights = false;
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    if (!is_there(snapshot, name)) {
      add_missing(files, name);
      *has_weights = true; /* although the file is missing */
      continue;
    }
    bool is_index = ends_with(name, ".safetensors.index.json"), is_safetensors = ends_with(name, ".safetensors");
    has_index = has_index || is_index;
    has_shards = has_shards || (is_safetensors && strstr(name, "-of-"));
    if (is_index && needs_weights) YK_TRY(check_index(snapshot, name, files, err));
    *has_weights = *has_weights || is_index || is_safetensors || ends_with(name, ".bin") || ends_with(name, ".gguf") ||
                   ends_with(name, ".pt") || ends_with(name, ".pth");
  }
  if (has_shards && !has_index && needs_weights) add_missing(files, "model.safetensors.index.json");
  return YK_OK;
}

static yk_status list_missing(const yk_hub_query *query, const char *snapshot, missing *files, yk_err *err)
{
  struct dirent **entries;
  bool has_weights;
  int n = scandir(snapshot, &entries, NULL, alphasort);
  if (n < 0) return yk_err_set(err, YK_E_IO, "%s: %s", snapshot, strerror(errno));
  yk_status status = check_entries(snapshot, entries, n, query->needs_weights, files, &has_weights, err);
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  YK_TRY(status);
  if (query->needs_weights && !is_there(snapshot, "config.json")) add_missing(files, "config.json");
  if (query->needs_weights && !has_weights) add_missing(files, "model.safetensors or its index");
  return files->names.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for names of files") : YK_OK;
}

/* Counts downloads that were interrupted or are in progress. */
static size_t count_unfinished(const char *folder)
{
  yk_strbuf path = YK_STRBUF_INIT;
  struct dirent *entry;
  size_t n = 0;
  yk_strbuf_append_fmt(&path, "%s/blobs", folder);
  DIR *dir = path.failed ? NULL : opendir(path.data);
  while (dir && (entry = readdir(dir)) != NULL) n += ends_with(entry->d_name, ".incomplete");
  if (dir) closedir(dir);
  yk_strbuf_free(&path);
  return n;
}

static yk_status refuse_incomplete(const yk_hub_query *query, const char *folder, const missing *files, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  size_t n_unfinished = count_unfinished(folder);
  yk_strbuf_append_fmt(&text, "%s: its download in the Hugging Face cache is incomplete; finish it: ", query->name);
  append_command(&text, query);
  yk_strbuf_append_str(&text, "; missing: ");
  append_missing(&text, files);
  if (n_unfinished) yk_strbuf_append_fmt(&text, "; %zu blobs are .incomplete", n_unfinished);
  if (text.failed)
    yk_err_set(err, YK_E_NOMEM, "no memory for names of files");
  else
    yk_err_set(err, YK_E_IO, "%s", text.data);
  yk_strbuf_free(&text);
  return err->code;
}

static yk_status check_complete(const yk_hub_query *query, const char *folder, const char *snapshot, yk_err *err)
{
  missing files = {.names = YK_STRBUF_INIT};
  yk_status status = list_missing(query, snapshot, &files, err);
  if (status == YK_OK && files.n > 0) status = refuse_incomplete(query, folder, &files, err);
  yk_strbuf_free(&files.names);
  return status;
}

yk_status yk_hub_find(const yk_hub_query *query, char **out, yk_err *err)
{
  yk_strbuf folder = YK_STRBUF_INIT, snapshot = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  append_folder(&folder, query);
  if (folder.failed)
    status = yk_err_set(err, YK_E_NOMEM, "no memory for a path");
  else if (!is_dir(folder.data))
    status = no_model(query, err);
  if (status == YK_OK) status = find_snapshot(query, folder.data, &snapshot, err);
  if (status == YK_OK) status = check_complete(query, folder.data, snapshot.data, err);
  yk_strbuf_free(&folder);
  if (status == YK_OK)
    *out = snapshot.data;
  else
    yk_strbuf_free(&snapshot);
  return status;
}
