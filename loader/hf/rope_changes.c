#include "loader/hf/rope_changes.h"

#include <string.h>

#include "loader/hf/json_edit.h"

static const char theta[] = "rope_theta", share[] = "partial_rotary_factor", local[] = "rope_local_base_freq",
                  original[] = "original_max_position_embeddings", scaling[] = "rope_scaling",
                  parameters[] = "rope_parameters";

static const char *const names[] = {theta, share, local, original, scaling, parameters};

enum { N_NAMES = sizeof names / sizeof *names };

static bool has(yk_json object, const char *key)
{
  return yk_json_kind_of(yk_json_get(object, key)) != YK_JSON_ABSENT;
}

bool yk_rope_changes_replace(const char *key)
{
  for (size_t i = 0; i < N_NAMES; i++)
    if (strcmp(key, names[i]) == 0) return true;
  return false;
}

bool yk_rope_changes_concern(yk_json changes)
{
  for (size_t i = 0; i < N_NAMES; i++)
    if (has(changes, names[i])) return true;
  return false;
}

/* The settings of a file or of changes: the older object has priority. Gemma's are of layers without a window. */
static yk_json settings_of(yk_json object)
{
  yk_json older = yk_json_get(object, scaling), newer = yk_json_get(object, parameters);
  if (yk_json_size(older) > 0) return older;
  yk_json full = yk_json_get(newer, "full_attention");
  return yk_json_is(full, YK_JSON_OBJECT) ? full : newer;
}

/* A setting that is a member of the rotary settings or of the enclosing object. */
static void append_one(yk_strbuf *out, const char *key, yk_json inner, yk_json file, yk_json changes)
{
  if (!yk_json_is_given(inner)) inner = yk_json_get(file, key);
  if (has(changes, key) || !yk_json_is_given(inner)) return;
  yk_json_begin_member(out, key);
  yk_json_append(out, inner, 0);
}

static void append_scaling(yk_strbuf *out, yk_json settings)
{
  if (!yk_json_is_given(settings)) return;
  yk_json_begin_member(out, scaling);
  if (!yk_json_is(settings, YK_JSON_OBJECT)) {
    yk_json_append(out, settings, 0); /* an error to report */
    return;
  }
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, settings)
  {
    bool is_left_out = yk_json_equals(key, theta) || yk_json_equals(key, share) ||
                       yk_json_equals(key, "full_attention") || yk_json_equals(key, "sliding_attention");
    if (!is_left_out) yk_json_append_member(out, key, yk_json_member(key));
  }
  yk_strbuf_append_str(out, "}");
}

void yk_rope_changes_append(yk_strbuf *out, yk_json file, yk_json changes)
{
  yk_json settings = settings_of(file);
  yk_json sliding = yk_json_get(yk_json_get(file, parameters), "sliding_attention");
  append_one(out, theta, yk_json_get(settings, theta), file, changes);
  append_one(out, share, yk_json_get(settings, share), file, changes);
  append_one(out, local, yk_json_get(sliding, theta), file, changes);
  if (!has(settings_of(changes), original)) append_one(out, original, YK_JSON_NONE, file, changes);
  if (!has(changes, scaling) && !has(changes, parameters)) append_scaling(out, settings);
}
