/* Prefixes of the text model in files: every prefix is found for every family whose files may hold other parts. */
#include "unit/loader_fixture.h"

#include "loader/model/linear_names.h"
#include "loader/model/weight_modules.h"
#include "loader/text_names.h"

enum { AFTER_ALL = 128 }; /* more than there are families */

static const struct {
  const char *layer, *embedding, *norm, *head;
} forms[YK_N_TEXT_PLACES] = {
    [YK_TEXT_ALONE] = {"model.layers.1.", "model.embed_tokens", "model.norm", "lm_head"},
    [YK_TEXT_IN_MODEL] = {"model.language_model.layers.1.", "model.language_model.embed_tokens",
                          "model.language_model.norm", "lm_head"},
    [YK_TEXT_OUTSIDE_MODEL] = {"language_model.model.layers.1.", "language_model.model.embed_tokens",
                               "language_model.model.norm", "language_model.lm_head"},
    [YK_TEXT_IN_BACKBONE] = {"backbone.layers.1.", "backbone.embed_tokens", "backbone.norm", "lm_head"}};

/* The place that is found for a file with one layer's tensor, whose name begins with layer. */
static yk_text_place found(yk_model_family family, yk_text_place of_class, const char *layer)
{
  char name[YK_WEIGHT_NAME_BYTES];
  snprintf(name, sizeof name, "%sinput_layernorm.weight", layer);
  const yk_tensor tensors[] = {{.name = "lm_head.weight"}, {.name = name}, {.name = "vision_tower.layers.1.norm"}};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_shards_of("model.safetensors", tensors, 3, &shards, &err), YK_OK);
  yk_model_config config = {.family = family, .text_place = of_class};
  yk_text_names_choose(shards, &config);
  yk_shards_close(shards);
  return config.text_place;
}

static void places(void **state)
{
  (void)state;
  int n_families = 0;
  for (int family = 0; family < AFTER_ALL; family++) {
    if (!yk_family_has_parts((yk_model_family)family)) continue;
    n_families++;
    for (yk_text_place place = YK_TEXT_ALONE; place < YK_N_TEXT_PLACES; place++)
      for (yk_text_place of_class = YK_TEXT_ALONE; of_class < YK_N_TEXT_PLACES; of_class++) {
        assert_int_equal(found((yk_model_family)family, of_class, forms[place].layer), place);
        assert_int_equal(found((yk_model_family)family, of_class, "other.layers.1."), of_class);
      }
  }
  assert_true(n_families >= 10);
  assert_int_equal(found(YK_FAMILY_LLAMA, YK_TEXT_ALONE, forms[YK_TEXT_IN_MODEL].layer), YK_TEXT_ALONE);
}

static void names(void **state)
{
  (void)state;
  for (yk_text_place place = YK_TEXT_ALONE; place < YK_N_TEXT_PLACES; place++) {
    const yk_model_config gemma = {.family = YK_FAMILY_GEMMA3_VL, .text_place = place, .n_layers = 2};
    char name[YK_WEIGHT_NAME_BYTES], expected[YK_WEIGHT_NAME_BYTES];
    yk_weight_name(&gemma, YK_ROLE_EMBEDDING, 0, name);
    assert_string_equal(name, forms[place].embedding);
    yk_weight_name(&gemma, YK_ROLE_FINAL_NORM, 0, name);
    assert_string_equal(name, forms[place].norm);
    yk_weight_name(&gemma, YK_ROLE_LM_HEAD, 0, name);
    assert_string_equal(name, forms[place].head);
    snprintf(expected, sizeof expected, "%spre_feedforward_layernorm", forms[place].layer);
    yk_weight_name(&gemma, YK_ROLE_FFN_NORM, 1, name);
    assert_string_equal(name, expected);
    assert_int_equal(yk_weight_layer(&gemma, name), 1);
    assert_string_equal(yk_weight_within_text(name), "layers.1.pre_feedforward_layernorm");
    assert_string_equal(yk_weight_within_layer(name), "pre_feedforward_layernorm");
    snprintf(expected, sizeof expected, "%smlp.down_proj.weight", forms[place].layer);
    assert_int_equal(yk_weight_kind_of(expected), YK_KIND_LINEAR); /* is quantised */
    const yk_weight_place down = {.role = YK_ROLE_DOWN, .layer = 1};
    yk_weight_place at;
    yk_weight_name(&gemma, YK_ROLE_DOWN, 1, name);
    assert_true(yk_weight_find(&gemma, name, &at) && memcmp(&at, &down, sizeof at) == 0);
  }
  assert_null(yk_weight_within_text("vision_tower.model.layers.1.mlp.down_proj"));
  assert_null(yk_weight_within_text("lm_head"));
  assert_null(yk_weight_within_layer("model.layers.mlp.down_proj"));
}

/* A name that is cut ends at the last byte. */
static void longest_names(void **state)
{
  (void)state;
  for (int family = 0; family < AFTER_ALL; family++)
    for (yk_text_place place = YK_TEXT_ALONE; place < YK_N_TEXT_PLACES; place++)
      for (yk_weight_role role = YK_ROLE_EMBEDDING; role < YK_N_ROLES; role++) {
        if (place != YK_TEXT_ALONE && !yk_family_has_parts((yk_model_family)family)) continue;
        const yk_model_config config = {.family = (yk_model_family)family, .text_place = place};
        char name[YK_WEIGHT_NAME_BYTES];
        yk_weight_name_of_expert(&config, role, YK_MAX_LAYERS - 1, YK_MAX_EXPERTS - 1, name);
        if (strlen(name) + 1 >= sizeof name) fail_msg("family %d: %s", family, name);
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(names),
                                     cmocka_unit_test(longest_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
