// Operators of the graph engine as descriptions: their type, name, inputs, outputs and attributes, and the list of
// types that libraries register when they are loaded. Nothing here computes, and there are no graphs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "values.h"

namespace ge {

class Graph;

class Operator {
public:
    Operator() = default;
    explicit Operator(const std::string& type);
    Operator(const std::string& name, const std::string& type);
    Operator(const AscendString& name, const AscendString& type);
    virtual ~Operator() = default;

    std::string GetName() const;
    Status GetName(AscendString& name) const;
    std::string GetOpType() const;
    Status GetOpType(AscendString& type) const;

    Operator& SetInput(const char* input, const Operator& source);
    Operator& SetInput(const char* input, uint32_t source_output, const Operator& source);
    Operator& SetInput(const char* input, uint32_t index, const Operator& source, const char* source_output);
    Operator& SetInput(const std::string& input, const Operator& source);
    Operator& SetInput(const std::string& input, const Operator& source, const std::string& source_output);
    Status UpdateInputDesc(const char* input, const TensorDesc& description);
    Status UpdateInputDesc(const std::string& input, const TensorDesc& description);
    Status UpdateOutputDesc(const char* output, const TensorDesc& description);
    Status UpdateOutputDesc(const std::string& output, const TensorDesc& description);
    Status UpdateDynamicOutputDesc(const char* output, uint32_t index, const TensorDesc& description);
    int GetDynamicOutputNum(const std::string& output) const;

#define ATTRIBUTE(name_type, value_type)                        \
    Operator& SetAttr(name_type name, const value_type& value); \
    Status GetAttr(name_type name, value_type& value) const;
#define SMALL_ATTRIBUTE(name_type, value_type)           \
    Operator& SetAttr(name_type name, value_type value); \
    Status GetAttr(name_type name, value_type& value) const;
#include "attribute_types.inc"
#undef ATTRIBUTE
#undef SMALL_ATTRIBUTE

protected:
    void InputRegister(const char* name, const char* types);
    void InputRegister(const std::string& name);
    void OptionalInputRegister(const char* name, const char* types);
    void OptionalInputRegister(const std::string& name);
    void OutputRegister(const char* name, const char* types);
    void OutputRegister(const std::string& name);
    void DynamicInputRegister(const char* name, unsigned int count, const char* types, bool at_end);
    void DynamicInputRegisterByIndex(const char* name, unsigned int count, size_t index);
    void DynamicOutputRegister(const char* name, unsigned int count, const char* types, bool at_end);
    void AttrRegister(const char* name, const AscendString& value);
    void AttrRegister(const char* name, const DataType& value);
    void AttrRegister(const char* name, const std::vector<AscendString>& value);
    void AttrRegister(const char* name, const std::vector<float>& value);
    void AttrRegister(const char* name, const std::vector<int64_t>& value);
    void AttrRegister(const char* name, bool value);
    void AttrRegister(const char* name, float value);
    void AttrRegister(const char* name, int64_t value);
    void RequiredAttrRegister(const std::string& name);
    void RequiredAttrWithTypeRegister(const char* name, const char* type);
    void SubgraphCountRegister(const char* name, uint32_t count);
    void SetSubgraphBuilder(const char* name, uint32_t index, const std::function<Graph()>& builder);
    void InferFuncRegister(const std::function<Status(Operator&)>& function);

private:
    struct Description;
    Description& described();
    std::shared_ptr<Description> description_;
};

class OperatorFactory {
public:
    static Operator CreateOperator(const char* name, const char* type);
    static Operator CreateOperator(const std::string& name, const std::string& type);
    static bool IsExistOp(const char* type);
    static bool IsExistOp(const std::string& type);
};

class OperatorCreatorRegister {
public:
    OperatorCreatorRegister(const char* type, const std::function<Operator(const AscendString&)>& creator);
    OperatorCreatorRegister(const std::string& type, const std::function<Operator(const std::string&)>& creator);
};

class InferShapeFuncRegister {
public:
    InferShapeFuncRegister(const std::string& type, const std::function<Status(Operator&)>& function);
};

}  // namespace ge
