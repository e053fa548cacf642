#include "cli/batch/batch_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char placeholder[] = "{part}";
enum { MAX_PARTS = 1000000 };

/* Reads digits; returns after them, or NULL. */
static const char *read_count(const char *text, int32_t *out)
{
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n > 7) return NULL;
  *out = (int32_t)strtol(text, NULL, 10);
  return text + n;
}

yk_status yk_batch_part_parse(void *value, const char *text, yk_err *err)
{
  yk_batch_part part = {0};
  const char *slash = read_count(text, &part.number);
  const char *end = slash && *slash == '/' ? read_count(slash + 1, &part.count) : NULL;
  if (!end || *end || part.number < 1 || part.number > part.count || part.count > MAX_PARTS)
    return yk_err_set(err, YK_E_INVAL, "expected PART/PARTS as 3/16, counted from 1, found \"%.60s\"", text);
  *(yk_batch_part *)value = part;
  return YK_OK;
}

int32_t yk_batch_part_of(int32_t count, int64_t line)
{
  return (int32_t)((line - 1) % count) + 1;
}

bool yk_batch_part_has(const yk_batch_part *part, int64_t line)
{
  return part->count == 0 || yk_batch_part_of(part->count, line) == part->number;
}

yk_status yk_batch_part_path(const yk_batch_part *part, const char *pattern, char **path, yk_err *err)
{
  char name[32] = "", count[16];
  const char *at = strstr(pattern, placeholder);
  if (at && part->count == 0)
    return yk_err_set(err, YK_E_INVAL, "--output: %.200s names a part, but there is no --part", pattern);
  int width = snprintf(count, sizeof count, "%d", part->count);
  if (at) snprintf(name, sizeof name, "%0*d-of-%s", width, part->number, count);
  int n_before = at ? (int)(at - pattern) : (int)strlen(pattern);
  size_t n_bytes = strlen(pattern) + strlen(name) + 1;
  *path = malloc(n_bytes);
  if (!*path) return yk_err_set(err, YK_E_NOMEM, "no memory for a file name");
  snprintf(*path, n_bytes, "%.*s%s%s", n_before, pattern, name, at ? at + strlen(placeholder) : "");
  return YK_OK;
}
