// An operator of `tierkv` as the CANN operator that does it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/core/function_schema.h>

namespace tierkv {

// `words` are the arguments of the aclnn function: inputs (mutated ones among them), attributes,
// outputs, each in the order of the operator's definition. A word is
//
//   name      an argument of the schema; of a list of records each call takes one
//   name?     the same; the list may be empty, the call then takes an empty tensor
//   name[2]   one tensor of a list
//   name!     a tensor that every call must find as it was: all calls but the last take a copy
//   <bytes>   the bytes of a record; where it stands, records may lie apart
//   -         an optional tensor that is not there
//   7         a number
struct Description {
  const char* operation;  // in namespace tierkv
  const char* type;       // of CANN's operator
  const char* words;
};

struct Word {
  enum Kind { kTensor, kRecords, kNumber, kBytes, kAbsent, kConstant };

  Kind kind = kConstant;
  int argument = -1;        // place in the schema
  int element = -1;         // of a list
  std::int64_t number = 0;  // of a constant
  bool may_be_empty = false, copied = false;
};

inline Word read_word(std::string text, const c10::FunctionSchema& schema) {
  if (text == "-") return {Word::kAbsent};
  if (text == "<bytes>") return {Word::kBytes};
  Word word;
  if (text[0] >= '0' && text[0] <= '9') {
    word.number = std::atoll(text.c_str());
    return word;
  }
  word.may_be_empty = text.back() == '?';
  word.copied = text.back() == '!';
  if (word.may_be_empty || word.copied) text.pop_back();
  if (text.back() == ']') {
    word.element = std::atoi(text.c_str() + text.find('[') + 1);
    text.resize(text.find('['));
  }
  const auto argument = schema.argumentIndexWithName(text);
  TORCH_CHECK(argument.has_value(), schema.name(), ": no argument ", text);
  word.argument = *argument;
  const auto kind = schema.arguments()[*argument].type()->kind();
  const bool list = kind == c10::TypeKind::ListType && word.element < 0;
  const bool tensor = kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
  word.kind = list ? Word::kRecords : tensor ? Word::kTensor : Word::kNumber;
  return word;
}

inline std::vector<Word> read_words(const char* words, const c10::FunctionSchema& schema) {
  std::istringstream in(words);
  std::vector<Word> read;
  for (std::string text; in >> text;) read.push_back(read_word(text, schema));
  return read;
}

}  // namespace tierkv
