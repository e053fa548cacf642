#include "cli/api_keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { FILE_MAX_BYTES = 1 << 20 };

void yk_api_keys_free(yk_api_keys *keys)
{
  for (size_t i = 0; i < keys->n; i++) free(keys->keys[i]);
  free(keys->keys);
  *keys = (yk_api_keys){0};
}

static yk_status check_key(const char *text, yk_err *err)
{
  if (!text[0]) return yk_err_set(err, YK_E_INVAL, "expected a key, found an empty one");
  for (const char *at = text; *at; at++)
    if (!isgraph((unsigned char)*at) || (unsigned char)*at > 126) /* as a code: the message must not quote the key */
      return yk_err_set(err, YK_E_INVAL, "expected a key of visible ASCII characters, found byte 0x%02X at offset %td",
                        (unsigned char)*at, at - text);
  return YK_OK;
}

yk_status yk_api_keys_add(void *keys, const char *text, yk_err *err)
{
  yk_api_keys *list = keys;
  YK_TRY(check_key(text, err));
  char **grown = realloc(list->keys, (list->n + 1) * sizeof *grown), *copy = strdup(text);
  if (grown) list->keys = grown;
  if (grown && copy) {
    list->keys[list->n++] = copy;
    return YK_OK;
  }
  free(copy);
  return yk_err_set(err, YK_E_NOMEM, "no memory for a key");
}

static yk_status add_lines(yk_api_keys *keys, char *text, yk_err *err)
{
  size_t n_before = keys->n, number = 0;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    number++;
    while (isspace((unsigned char)*line)) line++;
    size_t length = strlen(line);
    while (length > 0 && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
    if (length == 0) continue;
    yk_status status = yk_api_keys_add(keys, line, err);
    if (status != YK_OK) yk_err_prefix(err, "line %zu", number);
    YK_TRY(status);
  }
  return keys->n > n_before ? YK_OK : yk_err_set(err, YK_E_INVAL, "expected a key a line, found none");
}

yk_status yk_api_keys_add_file(void *keys, const char *path, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_cli_read_text(path, FILE_MAX_BYTES, &text, &n_bytes, err));
  yk_status status = add_lines(keys, text, err);
  if (status != YK_OK) yk_err_prefix(err, "%s", path);
  free(text);
  return status;
}
