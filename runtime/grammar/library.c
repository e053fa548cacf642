#define _GNU_SOURCE /* dladdr, RTLD_NODELETE */
#include "grammar/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/library.h"

#define PACKAGES "xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2"
#define INSTALL                                                                                                        \
  "install it by \"python3 -m pip install --no-deps --target DIR " PACKAGES "\" and --grammar-library DIR, or "        \
  "YOKE_GRAMMAR_LIBRARY=DIR"

struct yk_grammar_library {
  char files[2][PATH_MAX];
  yk_ffi_functions functions;
  void *array; /* the function that makes arrays */
  yk_ffi_any methods[YK_N_GRAMMAR_METHODS];
};

static const struct {
  const char *type, *name;
} methods[YK_N_GRAMMAR_METHODS] = {
    [YK_TOKENIZER_NEW] = {"TokenizerInfo", "__ffi_init__"},
    [YK_TOKENIZER_SERIALIZE] = {"TokenizerInfo", "serialize_json"},
    [YK_COMPILER_NEW] = {"GrammarCompiler", "__ffi_init__"},
    [YK_COMPILER_SCHEMA] = {"GrammarCompiler", "compile_json_schema"},
    [YK_COMPILED_READ] = {"CompiledGrammar", "deserialize_json"},
    [YK_COMPILED_BYTES] = {"CompiledGrammar", "memory_size_bytes"},
    [YK_MATCHER_NEW] = {"GrammarMatcher", "__ffi_init__"},
    [YK_MATCHER_ACCEPT] = {"GrammarMatcher", "accept_token"},
    [YK_MATCHER_ACCEPT_TEXT] = {"GrammarMatcher", "accept_string"},
    [YK_MATCHER_RESTART] = {"GrammarMatcher", "reset"},
    [YK_MATCHER_TAKE_BACK] = {"GrammarMatcher", "rollback"},
    [YK_MATCHER_HAS_ENDED] = {"GrammarMatcher", "is_terminated"},
    [YK_MATCHER_FILL] = {"GrammarMatcher", "fill_next_token_bitmask"},
};

/* ---- Finding the files ------------------------------------------------------------------------------------------- */

static const char *const layouts[][2] = {{"libtvm_ffi.so", "libxgrammar_bindings.so"},
                                         {"tvm_ffi/lib/libtvm_ffi.so", "xgrammar/libxgrammar_bindings.so"}};

static bool find_in(yk_grammar_library *library, const char *dir)
{
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    bool found = true;
    for (int j = 0; j < 2; j++) {
      int n = snprintf(library->files[j], PATH_MAX, "%s/%s", dir, layouts[i][j]);
      found &= n > 0 && n < PATH_MAX && access(library->files[j], R_OK) == 0;
    }
    if (found) return true;
  }
  return false;
}

/* The folder of the program or shared library that holds this code. */
static bool find_own_folder(char out[PATH_MAX])
{
  Dl_info info;
  bool known = dladdr((const void *)layouts, &info) && info.dli_fname && realpath(info.dli_fname, out);
  if (!known && !realpath("/proc/self/exe", out)) return false;
  char *end = strrchr(out, '/');
  if (end) *end = '\0';
  return end != NULL;
}

static yk_status find_files(yk_grammar_library *library, const char *dir, yk_err *err)
{
  static const char *const places[] = {"yoke-grammar", "../lib/yoke-grammar", "../../yoke-grammar"};
  char own[PATH_MAX], place[PATH_MAX + 32];
  if (!dir || !dir[0]) dir = getenv("YOKE_GRAMMAR_LIBRARY");
  if (dir && dir[0]) {
    if (find_in(library, dir)) return YK_OK;
    return yk_err_set(err, YK_E_UNSUPPORTED, "the grammar library xgrammar is not in %.40s; " INSTALL, dir);
  }
  for (size_t i = 0; find_own_folder(own) && i < sizeof places / sizeof *places; i++) {
    snprintf(place, sizeof place, "%s/%s", own, places[i]);
    if (find_in(library, place)) return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED, "the grammar library xgrammar is missing; " INSTALL);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Whether the file reaches to its section table, at the end of a library. Loading a shorter one ends the process. */
static bool is_whole(const char *path)
{
  Elf64_Ehdr header;
  struct stat status;
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  bool is_read = fread(&header, sizeof header, 1, file) == 1 && fstat(fileno(file), &status) == 0;
  fclose(file);
  if (!is_read || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  return header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize <= (uint64_t)status.st_size;
}

static yk_status load_functions(yk_grammar_library *library, yk_err *err)
{
  static const yk_library_symbol symbols[] = {
      {"TVMFFIGetVersion", offsetof(yk_ffi_functions, version)},
      {"TVMFFITypeKeyToIndex", offsetof(yk_ffi_functions, type_index_of)},
      {"TVMFFIGetTypeInfo", offsetof(yk_ffi_functions, type_info)},
      {"TVMFFIFunctionGetGlobal", offsetof(yk_ffi_functions, function_global)},
      {"TVMFFIFunctionCall", offsetof(yk_ffi_functions, call)},
      {"TVMFFIErrorMoveFromRaised", offsetof(yk_ffi_functions, move_error)},
      {"TVMFFIObjectDecRef", offsetof(yk_ffi_functions, release)},
  };
  yk_ffi_version version;
  for (int i = 0; i < 2; i++)
    if (!is_whole(library->files[i]))
      return yk_err_set(err, YK_E_UNSUPPORTED, "%.40s: expected a library, found an incomplete or other file; " INSTALL,
                        library->files[i]);
  /* The other library is linked against the symbols of this library. */
  if (!dlopen(library->files[0], RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s", dlerror());
  YK_TRY(yk_library_load(library->files[0], symbols, sizeof symbols / sizeof *symbols, &library->functions, err));
  library->functions.version(&version);
  if (version.major != YK_FFI_MAJOR || version.minor != YK_FFI_MINOR)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%.40s: expected version %d.%d of the ABI, found %u.%u; " INSTALL,
                      library->files[0], YK_FFI_MAJOR, YK_FFI_MINOR, version.major, version.minor);
  return yk_library_load(library->files[1], NULL, 0, NULL, err);
}

static yk_ffi_bytes bytes_of(const char *text)
{
  return (yk_ffi_bytes){text, strlen(text)};
}

static yk_status find_method(yk_grammar_library *library, yk_grammar_method method, yk_err *err)
{
  const char *wanted = methods[method].name;
  char key[128];
  int32_t index;
  snprintf(key, sizeof key, "xgrammar.tvm_ffi_binding.%s", methods[method].type);
  yk_ffi_bytes name = bytes_of(key);
  bool found = library->functions.type_index_of(&name, &index) == 0;
  const yk_ffi_type *type = found ? library->functions.type_info(index) : NULL;
  for (int32_t i = 0; type && i < type->n_methods; i++) {
    const yk_ffi_method *m = &type->methods[i];
    if (m->name.size != strlen(wanted) || memcmp(m->name.data, wanted, m->name.size) != 0) continue;
    if (m->function.type_index != YK_FFI_FUNCTION) break;
    library->methods[method] = m->function;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED, "%.40s lacks the method %s.%s; " INSTALL, library->files[1],
                    methods[method].type, wanted);
}

/* One schema, from compiler to mask: of four tokens only "true" and "false" begin a boolean. */
static yk_status test_itself(const yk_grammar_library *library, yk_err *err)
{
  static const char *const texts[] = {"true", "[", "false", ""};
  enum { N = sizeof texts / sizeof *texts, EXPECTED = 5 };
  yk_ffi_bytes bytes[N];
  yk_ffi_any values[N], vocab = {0}, ends = {0}, tokenizer = {0}, compiler = {0}, grammar = {0}, matcher = {0};
  uint32_t mask = 0;
  for (int i = 0; i < N; i++) {
    bytes[i] = bytes_of(texts[i]);
    values[i] = yk_ffi_bytes_of(&bytes[i]);
  }
  yk_ffi_any end = yk_ffi_int(N - 1);
  yk_status status = yk_grammar_array(library, values, N, &vocab, err);
  if (status == YK_OK) status = yk_grammar_array(library, &end, 1, &ends, err);
  if (status == YK_OK)
    status =
        yk_grammar_call(library, YK_TOKENIZER_NEW,
                        (yk_ffi_any[]){vocab, yk_ffi_int(0), yk_ffi_int(N), ends, yk_ffi_bool(0)}, 5, &tokenizer, err);
  if (status == YK_OK)
    status = yk_grammar_call(library, YK_COMPILER_NEW,
                             (yk_ffi_any[]){tokenizer, yk_ffi_int(1), yk_ffi_bool(0), yk_ffi_int(-1), yk_ffi_bool(0)},
                             5, &compiler, err);
  if (status == YK_OK)
    status =
        yk_grammar_call(library, YK_COMPILER_SCHEMA,
                        (yk_ffi_any[]){compiler, yk_ffi_text("{\"type\":\"boolean\"}"), yk_ffi_bool(1), yk_ffi_none(),
                                       yk_ffi_none(), yk_ffi_bool(1), yk_ffi_none(), yk_ffi_bool(0)},
                        8, &grammar, err);
  if (status == YK_OK)
    status = yk_grammar_call(library, YK_MATCHER_NEW,
                             (yk_ffi_any[]){grammar, yk_ffi_none(), yk_ffi_bool(0), yk_ffi_int(0), yk_ffi_none()}, 5,
                             &matcher, err);
  if (status == YK_OK) status = yk_grammar_fill_mask(library, matcher, &mask, N, err);
  if (status == YK_OK && mask != EXPECTED)
    status = yk_err_set(err, YK_E_UNSUPPORTED, "a mask: expected %x, found %x", EXPECTED, mask);
  yk_ffi_any *all[] = {&matcher, &grammar, &compiler, &tokenizer, &ends, &vocab};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) yk_grammar_release(library, all[i]);
  if (status == YK_OK) return YK_OK;
  yk_err_prefix(err, "self-test of %.80s", library->files[1]);
  return YK_E_UNSUPPORTED;
}

static yk_status load(yk_grammar_library *library, const char *dir, yk_err *err)
{
  YK_TRY(find_files(library, dir, err));
  YK_TRY(load_functions(library, err));
  yk_ffi_bytes array = bytes_of("ffi.Array");
  if (library->functions.function_global(&array, &library->array) != 0 || !library->array)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%.40s lacks the function ffi.Array; " INSTALL, library->files[0]);
  for (int i = 0; i < YK_N_GRAMMAR_METHODS; i++) YK_TRY(find_method(library, (yk_grammar_method)i, err));
  return test_itself(library, err);
}

yk_status yk_grammar_library_load(const char *dir, yk_grammar_library **out, yk_err *err)
{
  *out = NULL;
  yk_grammar_library *library = calloc(1, sizeof *library);
  if (!library) return yk_err_set(err, YK_E_NOMEM, "no memory for the grammar library");
  yk_status status = load(library, dir, err);
  if (status == YK_OK)
    *out = library;
  else
    yk_grammar_library_free(library);
  return status;
}

void yk_grammar_library_free(yk_grammar_library *library)
{
  if (!library) return;
  if (library->array) library->functions.release(library->array);
  free(library);
}

const char *yk_grammar_library_file(const yk_grammar_library *library, int index)
{
  return library->files[index];
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* The library's message without the place in its source and the end of the line: "[12:30:00] /file.cc:12: message". */
static yk_status take_error(const yk_grammar_library *library, yk_err *err)
{
  void *object = NULL;
  library->functions.move_error(&object);
  if (!object) return yk_err_set(err, YK_E_INVAL, "grammar library: an error without a message");
  const yk_ffi_error *error = object;
  const char *text = error->message.data;
  size_t n = error->message.size;
  const char *place = n > 0 && text[0] == '[' ? memmem(text, n, ".cc:", 4) : NULL;
  const char *colon = place ? memmem(place + 4, n - (size_t)(place + 4 - text), ": ", 2) : NULL;
  if (colon) {
    n -= (size_t)(colon + 2 - text);
    text = colon + 2;
  }
  while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
  yk_status status = yk_err_set(err, YK_E_INVAL, "%.*s", (int)(n < INT_MAX ? n : INT_MAX), text);
  library->functions.release(object);
  return status;
}

static yk_status call(const yk_grammar_library *library, void *function, yk_ffi_any *args, int32_t n_args,
                      yk_ffi_any *result, yk_err *err)
{
  *result = yk_ffi_none();
  return library->functions.call(function, args, n_args, result) == 0 ? YK_OK : take_error(library, err);
}

yk_status yk_grammar_call(const yk_grammar_library *library, yk_grammar_method method, yk_ffi_any *args, int32_t n_args,
                          yk_ffi_any *result, yk_err *err)
{
  return call(library, library->methods[method].pointer, args, n_args, result, err);
}

yk_status yk_grammar_array(const yk_grammar_library *library, yk_ffi_any *values, int32_t n, yk_ffi_any *out,
                           yk_err *err)
{
  return call(library, library->array, values, n, out, err);
}

void yk_grammar_release(const yk_grammar_library *library, yk_ffi_any *value)
{
  if (value->type_index >= YK_FFI_FIRST_OBJECT) library->functions.release(value->object);
  *value = yk_ffi_none();
}

yk_status yk_grammar_append_text(const yk_ffi_any *value, yk_strbuf *out, yk_err *err)
{
  if (value->type_index == YK_FFI_SMALL_STRING) {
    yk_strbuf_append(out, value->small, value->small_bytes);
    return YK_OK;
  }
  if (value->type_index != YK_FFI_STRING)
    return yk_err_set(err, YK_E_INTERNAL, "grammar library: expected a string, found type %d", value->type_index);
  const yk_ffi_string *string = value->pointer;
  yk_strbuf_append(out, string->bytes.data, string->bytes.size);
  return YK_OK;
}

yk_status yk_grammar_fill_mask(const yk_grammar_library *library, yk_ffi_any matcher, uint32_t *words, int32_t n_ids,
                               yk_err *err)
{
  yk_ffi_any result;
  int64_t n_words = ((int64_t)n_ids + 31) / 32, shape[] = {1, n_words}, strides[] = {n_words, 1};
  yk_ffi_tensor tensor = {.data = words,
                          .device_type = 1,
                          .n_dims = 2,
                          .type_bits = 32,
                          .type_lanes = 1,
                          .shape = shape,
                          .strides = strides};
  yk_ffi_any args[] = {
      matcher, {.type_index = YK_FFI_TENSOR_POINTER, .pointer = &tensor}, yk_ffi_int(0), yk_ffi_bool(0)};
  YK_TRY(yk_grammar_call(library, YK_MATCHER_FILL, args, 4, &result, err));
  if (!result.integer) memset(words, 0xff, (size_t)n_words * sizeof *words); /* nothing is excluded */
  if (n_ids % 32) words[n_words - 1] &= (UINT32_C(1) << n_ids % 32) - 1;
  return YK_OK;
}
