#include "hone/data/formats/python_literal.h"

#include <gtest/gtest.h>

#include "hone/text/templates/python_json.h"

namespace hone::data {
namespace {

TEST(PythonLiteral, ReadsWhatPythonWrites) {
  EXPECT_EQ(parse_python_literal(R"([{'a': "it's", 'b': None, 'c': (1, -2.5e3, True)}, 'x\n\u4f60\x41' 'y'])")->dump(),
            R"([{"a":"it's","b":null,"c":[1,-2500.0,true]},"x\n你Ay"])");
  for (auto bad : {"", "[", "[1 2]", "{'a' 1}", "'abc", "{1: 2}", "[1] x", "\\", "'\\x4", "foo"})
    EXPECT_FALSE(parse_python_literal(bad).ok()) << bad;
  EXPECT_FALSE(parse_python_literal(std::string(10000, '[')).ok());
}

TEST(PythonJson, WritesWhatPythonWrites) {
  EXPECT_EQ(text::python_dumps(Json::parse(R"({"a":[1,2.5,null,true],"é":"\n\"","e":{},"l":[]})")),
            R"({"a": [1, 2.5, null, true], "é": "\n\"", "e": {}, "l": []})");
  EXPECT_EQ(text::python_dumps(Json::parse("[1e15, 1e16, 0.0001, 0.00001]")), "[1000000000000000.0, 1e+16, 0.0001, 1e-05]");
}

}  // namespace
}  // namespace hone::data
