#include "operators.h"

#include <any>
#include <mutex>
#include <utility>

namespace ge {

struct Operator::Description {
    std::string name, type;
    std::vector<std::string> inputs, outputs;  // in the order in which they were registered
    std::map<std::string, unsigned int> dynamic_inputs, dynamic_outputs, subgraphs;
    std::map<std::string, TensorDesc> input_descriptions, output_descriptions;
    std::map<std::string, std::pair<Operator, std::string>> sources;  // of each input: the operator, and its output
    std::map<std::string, std::any> attributes;
    std::map<std::string, std::string> required_attributes;  // name and type
    std::function<Status(Operator&)> infer;
};

namespace {

template <typename Value>
Status read(const std::map<std::string, std::any>& attributes, const std::string& name, Value& value) {
    const auto place = attributes.find(name);
    const auto* found = place == attributes.end() ? nullptr : std::any_cast<Value>(&place->second);
    if (found == nullptr) return kGraphFailed;
    value = *found;
    return kGraphSuccess;
}

std::string text(const char* characters) { return characters == nullptr ? std::string() : std::string(characters); }

// Types of operators, registered while libraries are loaded.
struct Types {
    std::mutex guard;
    std::map<std::string, std::function<Operator(const std::string&)>> creators;
    std::map<std::string, std::function<Status(Operator&)>> infer_functions;
    static Types& instance() {
        static auto* types = new Types();
        return *types;
    }
};

}  // namespace

Operator::Operator(const std::string& type) : Operator(std::string(), type) {}
Operator::Operator(const std::string& name, const std::string& type) {
    described().name = name;
    described().type = type;
}
Operator::Operator(const AscendString& name, const AscendString& type)
    : Operator(text(name.GetString()), text(type.GetString())) {}

// Operators are passed by value and stay the same operator.
Operator::Description& Operator::described() {
    if (description_ == nullptr) description_ = std::make_shared<Description>();
    return *description_;
}

std::string Operator::GetName() const { return description_ == nullptr ? std::string() : description_->name; }
std::string Operator::GetOpType() const { return description_ == nullptr ? std::string() : description_->type; }
Status Operator::GetName(AscendString& name) const {
    name = AscendString(GetName().c_str());
    return description_ == nullptr ? kGraphFailed : kGraphSuccess;
}
Status Operator::GetOpType(AscendString& type) const {
    type = AscendString(GetOpType().c_str());
    return description_ == nullptr ? kGraphFailed : kGraphSuccess;
}

Operator& Operator::SetInput(const std::string& input, const Operator& source, const std::string& source_output) {
    described().sources[input] = {source, source_output};
    return *this;
}
Operator& Operator::SetInput(const std::string& input, const Operator& source) {
    return SetInput(input, source, std::string());
}
Operator& Operator::SetInput(const char* input, const Operator& source) { return SetInput(text(input), source); }
Operator& Operator::SetInput(const char* input, uint32_t source_output, const Operator& source) {
    const bool is_named = source.description_ != nullptr && source_output < source.description_->outputs.size();
    return SetInput(text(input), source,
                    is_named ? source.description_->outputs[source_output] : std::to_string(source_output));
}
Operator& Operator::SetInput(const char* input, uint32_t index, const Operator& source, const char* source_output) {
    return SetInput(text(input) + std::to_string(index), source, text(source_output));
}

Status Operator::UpdateInputDesc(const std::string& input, const TensorDesc& description) {
    described().input_descriptions[input] = description;
    return kGraphSuccess;
}
Status Operator::UpdateInputDesc(const char* input, const TensorDesc& description) {
    return UpdateInputDesc(text(input), description);
}
Status Operator::UpdateOutputDesc(const std::string& output, const TensorDesc& description) {
    described().output_descriptions[output] = description;
    return kGraphSuccess;
}
Status Operator::UpdateOutputDesc(const char* output, const TensorDesc& description) {
    return UpdateOutputDesc(text(output), description);
}
Status Operator::UpdateDynamicOutputDesc(const char* output, uint32_t index, const TensorDesc& description) {
    return UpdateOutputDesc(text(output) + std::to_string(index), description);
}
int Operator::GetDynamicOutputNum(const std::string& output) const {
    if (description_ == nullptr) return 0;
    const auto place = description_->dynamic_outputs.find(output);
    return place == description_->dynamic_outputs.end() ? 0 : static_cast<int>(place->second);
}

#define ATTRIBUTE(name_type, value_type)                                                             \
    Operator& Operator::SetAttr(name_type name, const value_type& value) {                           \
        described().attributes[std::string(name)] = value;                                           \
        return *this;                                                                                \
    }                                                                                                \
    Status Operator::GetAttr(name_type name, value_type& value) const {                              \
        return description_ == nullptr ? kGraphFailed : read(description_->attributes, name, value); \
    }
#define SMALL_ATTRIBUTE(name_type, value_type)                                                       \
    Operator& Operator::SetAttr(name_type name, value_type value) {                                  \
        described().attributes[std::string(name)] = value;                                           \
        return *this;                                                                                \
    }                                                                                                \
    Status Operator::GetAttr(name_type name, value_type& value) const {                              \
        return description_ == nullptr ? kGraphFailed : read(description_->attributes, name, value); \
    }
#include "attribute_types.inc"
#undef ATTRIBUTE
#undef SMALL_ATTRIBUTE

void Operator::InputRegister(const std::string& name) { described().inputs.push_back(name); }
void Operator::InputRegister(const char* name, const char*) { InputRegister(text(name)); }
void Operator::OptionalInputRegister(const std::string& name) { InputRegister(name); }
void Operator::OptionalInputRegister(const char* name, const char*) { InputRegister(text(name)); }
void Operator::OutputRegister(const std::string& name) { described().outputs.push_back(name); }
void Operator::OutputRegister(const char* name, const char*) { OutputRegister(text(name)); }
void Operator::DynamicInputRegister(const char* name, unsigned int count, const char*, bool) {
    described().dynamic_inputs[text(name)] = count;
}
void Operator::DynamicInputRegisterByIndex(const char* name, unsigned int count, size_t) {
    described().dynamic_inputs[text(name)] = count;
}
void Operator::DynamicOutputRegister(const char* name, unsigned int count, const char*, bool) {
    described().dynamic_outputs[text(name)] = count;
}
void Operator::AttrRegister(const char* name, const AscendString& value) {
    described().attributes[text(name)] = text(value.GetString());
}
void Operator::AttrRegister(const char* name, const DataType& value) { described().attributes[text(name)] = value; }
void Operator::AttrRegister(const char* name, const std::vector<AscendString>& values) {
    std::vector<std::string> texts;
    for (const AscendString& value : values) texts.push_back(text(value.GetString()));
    described().attributes[text(name)] = texts;
}
void Operator::AttrRegister(const char* name, const std::vector<float>& value) {
    described().attributes[text(name)] = value;
}
void Operator::AttrRegister(const char* name, const std::vector<int64_t>& value) {
    described().attributes[text(name)] = value;
}
void Operator::AttrRegister(const char* name, bool value) { described().attributes[text(name)] = value; }
void Operator::AttrRegister(const char* name, float value) { described().attributes[text(name)] = value; }
void Operator::AttrRegister(const char* name, int64_t value) { described().attributes[text(name)] = value; }
void Operator::RequiredAttrRegister(const std::string& name) { described().required_attributes[name]; }
void Operator::RequiredAttrWithTypeRegister(const char* name, const char* type) {
    described().required_attributes[text(name)] = text(type);
}
void Operator::SubgraphCountRegister(const char* name, uint32_t count) { described().subgraphs[text(name)] = count; }
// There are no graphs to be built: only how many there would be is kept.
void Operator::SetSubgraphBuilder(const char* name, uint32_t index, const std::function<Graph()>&) {
    unsigned int& count = described().subgraphs[text(name)];
    count = count > index ? count : index + 1;
}
void Operator::InferFuncRegister(const std::function<Status(Operator&)>& function) { described().infer = function; }

Operator OperatorFactory::CreateOperator(const std::string& name, const std::string& type) {
    std::function<Operator(const std::string&)> creator;
    {
        const std::lock_guard<std::mutex> lock(Types::instance().guard);
        const auto place = Types::instance().creators.find(type);
        if (place != Types::instance().creators.end()) creator = place->second;
    }
    return creator ? creator(name) : Operator();
}
Operator OperatorFactory::CreateOperator(const char* name, const char* type) {
    return CreateOperator(text(name), text(type));
}
bool OperatorFactory::IsExistOp(const std::string& type) {
    const std::lock_guard<std::mutex> lock(Types::instance().guard);
    return Types::instance().creators.count(type) > 0;
}
bool OperatorFactory::IsExistOp(const char* type) { return IsExistOp(text(type)); }

OperatorCreatorRegister::OperatorCreatorRegister(const std::string& type,
                                                 const std::function<Operator(const std::string&)>& creator) {
    const std::lock_guard<std::mutex> lock(Types::instance().guard);
    Types::instance().creators[type] = creator;
}
OperatorCreatorRegister::OperatorCreatorRegister(const char* type,
                                                 const std::function<Operator(const AscendString&)>& creator)
    : OperatorCreatorRegister(text(type),
                              [creator](const std::string& name) { return creator(AscendString(name.c_str())); }) {}

InferShapeFuncRegister::InferShapeFuncRegister(const std::string& type,
                                               const std::function<Status(Operator&)>& function) {
    const std::lock_guard<std::mutex> lock(Types::instance().guard);
    Types::instance().infer_functions[type] = function;
}

}  // namespace ge
