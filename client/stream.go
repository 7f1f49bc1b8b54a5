package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// Stream runs a tool that answers progress while it works; progress may be nil.
func Stream[P, R any](ctx context.Context, c *Client, tool string, in any, progress func(P)) (*R, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	resp, err := c.post(ctx, tool, nil, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, decode(tool, resp, nil)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var line api.Streamed[P, R]
		if err := d.Decode(&line); err != nil {
			return nil, problem.New(problem.Unavailable, "the server ended %s without an answer: %w", tool, err)
		}
		switch {
		case line.Error != nil:
			p := new(problem.Error)
			if err := json.Unmarshal(line.Error, p); err != nil {
				return nil, err
			}
			return nil, p
		case line.Reply != nil:
			return line.Reply, nil
		case line.Progress != nil && progress != nil:
			progress(*line.Progress)
		}
	}
}

// MapUpload sends the rows of a map job.
func (c *Client) MapUpload(ctx context.Context, s api.Scope, r io.Reader) (*api.MapUploadOut, error) {
	resp, err := c.post(ctx, "map-upload", query(s, nil), "application/octet-stream", r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(api.MapUploadOut)
	return out, decode("map-upload", resp, out)
}

// Export opens the stream that a backup is made from.
func (c *Client) Export(ctx context.Context, in api.ExportIn) (io.ReadCloser, error) {
	q := url.Values{"after": {strconv.Itoa(in.After)}, "epoch": {in.Epoch}, "hash": {in.Hash}}
	resp, err := c.post(ctx, "export", q, "application/octet-stream", http.NoBody)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, decode("export", resp, nil)
	}
	return resp.Body, nil
}
