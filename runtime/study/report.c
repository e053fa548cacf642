#include "study/report.h"

#include <stdio.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "base/strbuf.h"

extern const yk_embedded_file yk_report_files[]; /* report/, made by CMakeLists.txt */

/* In JSON a "<" stands inside strings alone, where the escape means the same. Without one there is no end tag, and no
 * comment in which an end tag would not count. */
static void append_escaped(yk_strbuf *out, const char *json, size_t n_bytes)
{
  for (const char *end = json + n_bytes; json < end;) {
    const char *sign = memchr(json, '<', (size_t)(end - json));
    yk_strbuf_append(out, json, (size_t)((sign ? sign : end) - json));
    if (sign) yk_strbuf_append_str(out, "\\u003c");
    json = sign ? sign + 1 : end;
  }
}

/* report.html with "{{NAME}}" replaced by the file of that name, and "{{study}}" by the study. */
static yk_status append_page(yk_strbuf *out, const char *study_json, size_t n_bytes, yk_err *err)
{
  const yk_embedded_file *page = yk_embedded_find(yk_report_files, "/report.html");
  const char *at = page ? (const char *)page->bytes : ""; /* ends with a NUL behind its bytes */
  for (const char *mark; (mark = strstr(at, "{{")); at = strstr(mark, "}}") + 2) {
    char path[64];
    yk_strbuf_append(out, at, (size_t)(mark - at));
    if (strncmp(mark, "{{study}}", 9) == 0) {
      append_escaped(out, study_json, n_bytes);
      continue;
    }
    snprintf(path, sizeof path, "/%.*s", (int)strcspn(mark + 2, "}"), mark + 2);
    const yk_embedded_file *file = yk_embedded_find(yk_report_files, path);
    if (!file) return yk_err_set(err, YK_E_INTERNAL, "report.html: no file is compiled in as %s", path);
    yk_strbuf_append(out, file->bytes, file->n_bytes);
  }
  yk_strbuf_append_str(out, at);
  return YK_OK;
}

static yk_status check_study(const char *study_json, size_t n_bytes, yk_err *err)
{
  json_t *study;
  YK_TRY(yk_tree_parse("study", study_json, n_bytes, &study, err));
  yk_status status = YK_OK;
  if (!json_is_object(study))
    status = yk_err_set(err, YK_E_FORMAT, "study: expected an object, found %s", yk_tree_type_name(study));
  json_decref(study);
  return status;
}

yk_status yk_study_report_write(const char *path, const char *study_json, size_t n_bytes, yk_err *err)
{
  YK_TRY(check_study(study_json, n_bytes, err));
  yk_strbuf page = YK_STRBUF_INIT;
  yk_status status = append_page(&page, study_json, n_bytes, err);
  if (status == YK_OK && page.failed) status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a report", path);
  if (status == YK_OK) status = yk_file_replace(path, page.data, page.length, err);
  yk_strbuf_free(&page);
  return status;
}
