package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// runGo makes calls with the Go SDK, as the scripts do with the other clients.
func runGo(t *testing.T, calls ...call) []outcome {
	t.Helper()
	doers := map[string]func(context.Context, openai.Client, call) (outcome, error){
		"chat": goChat, "chat_stream": goChatStream, "tool": goChat, "tool_stream": goChatStream,
		"completion": goCompletion, "completion_stream": goCompletionStream,
		"response": goResponse, "response_stream": goResponseStream,
		"embedding": goEmbedding, "models": goModels,
	}
	outcomes := make([]outcome, len(calls))
	for i, c := range calls {
		transport := http.DefaultTransport.(*http.Transport).Clone() // closed below, so that no test waits for another's connections
		options := []option.RequestOption{
			option.WithBaseURL(c.Base), option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries),
			option.WithHTTPClient(&http.Client{Transport: transport}),
		}
		for k, v := range c.Headers {
			options = append(options, option.WithHeader(k, v))
		}
		var err error
		if outcomes[i], err = doers[c.Do](t.Context(), openai.NewClient(options...), c); err != nil {
			outcomes[i].Error = goFailure(err)
		}
		transport.CloseIdleConnections()
	}
	return outcomes
}

func goFailure(err error) *failure {
	var e *openai.Error
	if !errors.As(err, &e) {
		return &failure{Class: fmt.Sprintf("%T", err), Message: err.Error()}
	}
	f := &failure{Class: fmt.Sprintf("%T", e), Message: e.Message, Status: e.StatusCode, Code: e.Code, Type: e.Type}
	if e.Response != nil {
		f.RetryAfter = e.Response.Header.Get("Retry-After")
	}
	return f
}

func goChatParams(c call) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model: c.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Prompt)},
	}
	if c.Do == "tool" || c.Do == "tool_stream" {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "weather", Parameters: openai.FunctionParameters{
				"type":       "object",
				"properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}},
				"required":   []string{"city", "days"},
			},
		})}
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	return p
}

func goChat(ctx context.Context, client openai.Client, c call) (outcome, error) {
	var res *http.Response
	r, err := client.Chat.Completions.New(ctx, goChatParams(c), option.WithResponseInto(&res))
	if err != nil {
		return outcome{}, err
	}
	choice := r.Choices[0]
	o := outcome{
		Text: choice.Message.Content, Finish: choice.FinishReason, Usage: goUsage(r.Usage),
		Task: res.Header.Get("Headgate-Task-Id"),
	}
	if calls := choice.Message.ToolCalls; len(calls) > 0 {
		o.Tool = &toolCall{calls[0].Function.Name, calls[0].Function.Arguments}
	}
	return o, nil
}

func goUsage(u openai.CompletionUsage) *usage {
	return &usage{u.PromptTokens, u.CompletionTokens, u.TotalTokens}
}

func goChatStream(ctx context.Context, client openai.Client, c call) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := goChatParams(c)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	var o outcome
	for stream.Next() {
		o.Pieces++
		o.addChunk(stream.Current())
		if o.Pieces == c.CancelAfter {
			o.Cancelled = true
			cancel()
		}
	}
	if o.Cancelled {
		return o, nil
	}
	return o, stream.Err()
}

func (o *outcome) addChunk(chunk openai.ChatCompletionChunk) {
	if chunk.JSON.Usage.Valid() {
		o.Usage = goUsage(chunk.Usage)
	}
	if len(chunk.Choices) == 0 {
		return
	}
	choice := chunk.Choices[0]
	o.Text += choice.Delta.Content
	if choice.FinishReason != "" {
		o.Finish = choice.FinishReason
	}
	for _, part := range choice.Delta.ToolCalls {
		if o.Tool == nil {
			o.Tool = &toolCall{}
		}
		o.Tool.Name += part.Function.Name
		o.Tool.Arguments += part.Function.Arguments
	}
}

func goCompletion(ctx context.Context, client openai.Client, c call) (outcome, error) {
	r, err := client.Completions.New(ctx, openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(c.Model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(c.Prompt)},
	})
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: r.Choices[0].Text, Finish: string(r.Choices[0].FinishReason), Usage: goUsage(r.Usage)}, nil
}

func goCompletionStream(ctx context.Context, client openai.Client, c call) (outcome, error) {
	stream := client.Completions.NewStreaming(ctx, openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(c.Model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(c.Prompt)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	defer stream.Close()
	var o outcome
	for stream.Next() {
		o.Pieces++
		chunk := stream.Current()
		if chunk.JSON.Usage.Valid() {
			o.Usage = goUsage(chunk.Usage)
		}
		if len(chunk.Choices) > 0 {
			o.Text += chunk.Choices[0].Text
			o.Finish = string(chunk.Choices[0].FinishReason)
		}
	}
	return o, stream.Err()
}

func goResponseParams(c call) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: c.Model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(c.Prompt)},
	}
}

func goResponse(ctx context.Context, client openai.Client, c call) (outcome, error) {
	r, err := client.Responses.New(ctx, goResponseParams(c))
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: r.OutputText(), Finish: string(r.Status), Usage: goResponseUsage(r.Usage)}, nil
}

func goResponseUsage(u responses.ResponseUsage) *usage {
	return &usage{u.InputTokens, u.OutputTokens, u.TotalTokens}
}

func goResponseStream(ctx context.Context, client openai.Client, c call) (outcome, error) {
	stream := client.Responses.NewStreaming(ctx, goResponseParams(c))
	defer stream.Close()
	var o outcome
	for stream.Next() {
		o.Pieces++
		switch event := stream.Current(); event.Type {
		case "response.output_text.delta":
			o.Text += event.Delta
		case "response.completed":
			o.Finish, o.Usage = string(event.Response.Status), goResponseUsage(event.Response.Usage)
		}
	}
	return o, stream.Err()
}

func goEmbedding(ctx context.Context, client openai.Client, c call) (outcome, error) {
	r, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: c.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{c.Prompt, "another"}},
	})
	if err != nil {
		return outcome{}, err
	}
	o := outcome{Usage: &usage{In: r.Usage.PromptTokens, Total: r.Usage.TotalTokens}}
	for _, d := range r.Data {
		o.Vectors = append(o.Vectors, d.Embedding[:4])
	}
	return o, nil
}

func goModels(ctx context.Context, client openai.Client, _ call) (outcome, error) {
	var o outcome
	pages := client.Models.ListAutoPaging(ctx)
	for pages.Next() {
		o.Models = append(o.Models, pages.Current().ID)
	}
	return o, pages.Err()
}
