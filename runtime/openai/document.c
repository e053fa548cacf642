#include "openai/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "openai/wide_seed.h"

/* Before the parser follows it down. */
static yk_status check_depth(const char *text, size_t n_bytes, yk_err *err)
{
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < n_bytes; i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') i++;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > YK_OPENAI_MAX_DEPTH)
        return yk_err_set(err, YK_E_FORMAT, "JSON: expected at most %d objects and arrays inside each other",
                          YK_OPENAI_MAX_DEPTH);
    } else if (c == '}' || c == ']') {
      depth--;
    }
  }
  return YK_OK;
}

static yk_status parse(const char *name, const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  return name ? yk_tree_parse(name, text, n_bytes, out, err) : yk_tree_parse_line(text, n_bytes, out, err);
}

yk_status yk_openai_document_parse(const char *name, const char *text, size_t n_bytes, yk_openai_document *out,
                                   yk_err *err)
{
  yk_err refused = YK_ERR_INIT;
  *out = (yk_openai_document){0};
  YK_TRY(check_depth(text, n_bytes, err));
  if (parse(name, text, n_bytes, &out->root, &refused) == YK_OK) return YK_OK;
  if (refused.code == YK_E_NOMEM) return yk_err_set(err, refused.code, "%s", refused.message);
  char *copy = malloc(n_bytes + 1);
  if (!copy) return yk_err_set(err, YK_E_NOMEM, "no memory for a text of %zu bytes", n_bytes);
  memcpy(copy, text, n_bytes);
  copy[n_bytes] = '\0';
  yk_status status = yk_wide_seed_take(copy, n_bytes, &out->wide_seed, &out->has_wide_seed, err);
  if (status == YK_OK && out->has_wide_seed)
    status = parse(name, copy, n_bytes, &out->root, err);
  else if (status == YK_OK)
    status = yk_err_set(err, refused.code, "%s", refused.message);
  free(copy);
  return status;
}

void yk_openai_document_free(yk_openai_document *document)
{
  json_decref(document->root);
  document->root = NULL;
}
